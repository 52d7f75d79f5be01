#!/usr/bin/env python3
"""Runs the same cases by Tandem and by other simulators: run.py TANDEM BENCH_OURS [BENCH_SIMGRID].

calculon and SimuMax are found through PYTHONPATH, SimGrid by CMake, astra-sim by $ASTRA_SIM; one that is not there is skipped and said so. Time is user time
of the processor as the kernel has it, for other work on the machine shows least in it: medians of several runs, taken in turn.
"""
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDS = os.path.join(HERE, "published.jsonl")
SKIPPED = 77


def process(command):
    """Runs a process and returns its user seconds, peak megabytes and printed lines."""
    with tempfile.TemporaryFile() as out:
        child = os.posix_spawnp(command[0], command, os.environ, file_actions=[
            (os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)])
        _, status, usage = os.wait4(child, 0)
        out.seek(0)
        lines = out.read().decode().splitlines()
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return usage.ru_utime, usage.ru_maxrss / 1024, lines


def told(lines, _):
    """Returns a benchmark's last result line and its peak megabytes, which follow it on the last line."""
    return lines[-2].strip(), json.loads(lines[-1])["peak_mb"]


def last_cycles(lines, peak_mb):
    """Returns when astra-sim's last rank finished (a cycle is 1 ns), and the peak, which includes this program's own."""
    ends = [int(cycles) for line in lines for cycles in re.findall(r"finished, (\d+) cycles", line)]
    return f"{len(ends)} ranks done at {max(ends) * 1e-9:.9f} s", peak_mb


def side_by_side(what, times, ours, peer, peer_says=told):
    runs = {"ours": [], "peer": []}
    for _ in range(times):
        runs["ours"].append(process(ours))
        runs["peer"].append(process(peer))
    seconds = {who: statistics.median(run[0] for run in of) for who, of in runs.items()}
    for (who, of), says in zip(runs.items(), (told, peer_says)):
        _, peak_mb, lines = of[-1]
        text, peak_mb = says(lines, peak_mb)
        print(f"  {what:22} {who}  user {seconds[who]:7.3f} s  peak {peak_mb:4.0f} MB  {text}")
    print(f"  {what:22} the peer takes {seconds['peer'] / seconds['ours']:.1f} times as long")


def network(ours, simgrid):
    print("SimGrid: flows on links, max-min sharing")
    if simgrid is None:
        return print("  SimGrid: not installed: skipped (CMake did not find it)")
    side_by_side("ring of 1,024, 1 GiB", 3, [ours, "ring", "1024"], [simgrid, "ring", "1024"])
    side_by_side("16,256 flows", 5, [ours, "flows"], [simgrid, "flows"])


def astra_sim(ours):
    print("astra-sim: every message of a ring, links with a queue")
    ring = [os.path.abspath(ours), "ring", "1024"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # it writes logs where it runs
        write = [sys.executable, os.path.join(HERE, "astra_sim_ring.py"), "1024", folder]
        made = subprocess.run(write, stdout=subprocess.PIPE, check=False)
        if made.returncode == SKIPPED:
            return
        if made.returncode != 0:
            sys.exit("failed: astra_sim_ring.py")
        side_by_side("ring of 1,024, 1 GiB", 3, ring, json.loads(made.stdout), last_cycles)


def found_by(command):
    """Returns a driver's records by id; empty if its simulator is not installed."""
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode not in (0, SKIPPED):
        sys.exit(f"failed: {' '.join(command)}")
    return {found["id"]: found for found in map(json.loads, run.stdout.splitlines())}


def events(tandem, plan):
    """Returns the step time of the event simulation, and the user seconds of the whole process."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        command = [tandem, "simulate", file.name, "--allow-oversize", "--json"]
        seconds = statistics.median(process(command)[0] for _ in range(3))
        step = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["step_time_s"]
    return {"step_time_s": step, "processor_s": seconds}


def plans(peer, driver, tandem, ours):
    print(f"{peer}: predicted step times, and user time of one prediction")
    theirs = found_by([sys.executable, os.path.join(HERE, driver), RECORDS])
    if not theirs:
        return
    mine = found_by([ours, "estimate", RECORDS])
    with open(RECORDS, encoding="utf-8") as lines:
        records = [r for r in map(json.loads, lines) if r["id"] in theirs]
    errors = {peer: [], "closed form": [], "events": []}
    seconds = {peer: [], "closed form": [], "events": []}
    for r in records:
        measured, row = r["measured"]["step_time_s"], f"  {r['id'][-36:]:36} {r['measured']['step_time_s']:8.3f} s measured"
        for who, found in ((peer, theirs[r["id"]]), ("closed form", mine.get(r["id"])), ("events", events(tandem, r["plan"]))):
            if found is None:
                row += f"  {who} has no such plan"
                continue
            errors[who].append(found["step_time_s"] / measured - 1)
            seconds[who].append(found["processor_s"])
            row += f"  {who} {found['step_time_s']:8.3f} ({errors[who][-1]:+6.1%})"
        print(row)
    for who, all_errors in errors.items():
        print(f"  {who:12} mean absolute error {statistics.mean(map(abs, all_errors)):5.1%} of {len(all_errors)} plans, one prediction "
              f"{statistics.median(seconds[who]) * 1e6:9.1f} us" + (" (whole process)" if who == "events" else ""))
    ratio = {who: statistics.median(seconds[peer]) / statistics.median(of) for who, of in seconds.items()}
    print(f"  {peer} takes {ratio['closed form']:.0f} times as long as the closed form, {ratio['events']:.2f} times as long as the "
          "event simulation")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    tandem, ours = sys.argv[1:3]
    network(ours, sys.argv[3] if len(sys.argv) == 4 else None)
    astra_sim(ours)
    plans("calculon", "calculon_plans.py", tandem, ours)
    plans("SimuMax", "simumax_plans.py", tandem, ours)


if __name__ == "__main__":
    main()
