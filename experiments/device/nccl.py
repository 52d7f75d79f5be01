#!/usr/bin/env python3
"""NCCL on a machine with one GPU, in about two minutes: correctness, never times. See run.sh nccl."""
import argparse
import json
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import machine
from machine import ROOT

STEPS = 3
LIMIT = 60  # seconds of one training
PART = 6 * 60  # seconds of all
# Fields of a plan besides those of all cases, by words of a case's name.
MORE = {"": {}, "dropless": {"model": {"moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 128}}},
        "muon": {"training": {"optimizer": "muon"}}}
# (ranks, layout, deterministic, words): NCCL carries bytes if deterministic, and else adds up.
CASES = [(1, {}, True, ""), (2, {"tensor": 2}, True, ""), (2, {"pipeline": 2}, True, ""), (2, {"data": 2, "zero_stage": 1}, True, ""),
         (4, {"tensor": 2, "pipeline": 2}, True, ""), (2, {"data": 2}, False, ""), (2, {"data": 2, "zero_stage": 1}, False, ""),
         (2, {"tensor": 2, "sequence_parallel": True}, False, ""), (2, {"data": 2, "expert": 2}, True, "dropless"),
         (2, {"data": 2, "expert": 2}, False, "dropless"), (2, {"data": 2, "zero_stage": 1}, True, "muon")]
LOOSE = 1e-3  # relative, of losses where NCCL adds up: fp32 sums in another order over three steps


def name_of(case):
    ranks, shape, deterministic, words = case
    return f"{ranks} {shape} {'deterministic' if deterministic else 'fast'} {words}".strip()


def plan_of(ranks, shape, deterministic, words=""):
    more = MORE[words]
    return {"model": {"family": "gpt", "num_layers": 4, "hidden_size": 128, "num_attention_heads": 4, "vocab_size": 256} | more.get("model", {}),
            "training": {"seq_length": 64, "micro_batch_size": 2, "global_batch_size": 16, "precision": "fp32", "learning_rate": 0.001,
                         "deterministic": deterministic} | more.get("training", {}),
            "parallel": shape, "cluster": {"preset": "dgx-h100", "devices": ranks}}


def environment(**more):
    return machine.surroundings() | {"NO_COLOR": "1"} | more


def start(program, plan, arguments, ranks):
    """One process per rank over Gloo, all on the single device."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [program, "train", plan, "--data", str(ROOT / "README.md"), "--backend", "cuda", "--launch", "env", "--timeout", "30", *arguments]
    return [machine.start(command, environment(RANK=str(r), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                                               TANDEM_SHARE_DEVICE="1", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1"))
            for r in range(ranks)]


def finish(processes):
    """Returns (exit code, stdout, stderr) of each process; the exit code is None if it had to be killed."""
    until = time.monotonic() + LIMIT
    return [machine.finish(p, max(1, until - time.monotonic())) for p in processes]


def steps_of(out):
    """Losses and gradient norms in hexadecimal, which shows every bit."""
    return [(s["loss"].hex(), s["grad_norm"].hex()) for s in json.loads(out)["steps"]] if out.lstrip().startswith("{") else []


def train(case, folder, comm, **options):
    plan = folder / "plan.json"
    plan.write_text(json.dumps(plan_of(*case)), encoding="utf-8")
    arguments = ["--steps", str(options.get("steps", STEPS)), "--json"]
    if comm == "loopback":
        command = [options["program"], "train", str(plan), "--data", str(ROOT / "README.md"), "--backend", "cuda", *arguments]
        return [machine.ended(command, environment(), LIMIT)]
    return finish(start(options["program"], str(plan), [*arguments, "--comm", comm], case[0]))


def compare(case, folder, program, comm):
    there, here = train(case, folder, comm, program=program), train(case, folder, "loopback", program=program)
    ours, theirs = steps_of(there[0][1]), steps_of(here[0][1])
    good = len(ours) == STEPS and len(theirs) == STEPS
    if case[2]:
        good = good and ours == theirs
    else:
        good = good and all(abs(float.fromhex(a[0]) / float.fromhex(b[0]) - 1) < LOOSE for a, b in zip(ours, theirs))
    ends = [] if good else [(code, err[-1500:]) for code, _, err in there + here]
    return {"good": good, "steps": ours, "loopback": theirs, "ends": ends}


def kill(folder, program):
    """Kills one of two processes. The other must end within 10 seconds and name it."""
    plan = folder / "plan.json"
    plan.write_text(json.dumps(plan_of(2, {"data": 2}, True)), encoding="utf-8")
    processes = start(program, str(plan), ["--steps", "1000000", "--comm", "nccl"], 2)
    late = threading.Timer(LIMIT, processes[0].kill)  # ends the wait for a step that does not come
    late.start()
    for line in processes[0].stderr:
        if line.startswith("step"):
            break
    late.cancel()
    processes[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    ends = finish(processes)
    seconds = time.monotonic() - killed
    good = ends[0][0] == 7 and seconds < 10 and "process 1" in ends[0][2] and "has died" in ends[0][2]
    return {"good": good, "seconds": round(seconds, 1), "exit": ends[0][0], "told": ends[0][2][-800:]}


def earlier(file):
    """Results of an earlier run that were good: their cases are not run again."""
    return [r for r in json.loads(file.read_text(encoding="utf-8"))["results"] if r["good"]] if file.exists() else []


def perform(jobs, until, file, facts):
    """Runs (name, job) pairs and writes their results after each. Returns whether all are good."""
    results = earlier(file)
    known = {r["name"] for r in results}
    for name, job in jobs:
        if name in known:
            continue
        begin = time.monotonic()
        try:
            found = job() if begin < until else {"good": False, "ends": "not begun: no time left"}
        except Exception as e:  # one case must not lose the others
            found = {"good": False, "ends": repr(e)}
        results.append({"name": name, **found, "took": round(time.monotonic() - begin, 1)})
        print(f"{name}: {'good' if results[-1]['good'] else 'BAD'}, {results[-1]['took']} s", flush=True)
        file.write_text(json.dumps(facts | {"results": results}, indent=2) + "\n", encoding="utf-8")
    return all(r["good"] for r in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, prog="run.sh nccl")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=ROOT / "build-device")
    parser.add_argument("--programs", type=Path, help="programs.tar.xz of build.sh, to unpack into --build if that lacks programs [there or beside it]")
    parser.add_argument("--seconds", type=float, default=PART, help="what is not begun by then is left out [%(default)s]")
    parser.add_argument("--dry", action="store_true", help="print the cases and run nothing")
    args = parser.parse_args()
    if args.dry:
        for case in CASES:
            print(f"{name_of(case)}: {'0 bits off' if case[2] else f'within {LOOSE}'}")
        return
    machine.unpack(args.build, args.programs)
    if problem := machine.unsuitable(args.build):
        sys.exit(f"run.sh: {problem}")
    args.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="tandem-nccl-"))
    program, until = str(args.build / "tandem"), time.monotonic() + args.seconds
    jobs = [("staged", lambda: compare((2, {"data": 2}, True, ""), folder, program, "staged"))]
    jobs += [(name_of(case), lambda case=case: compare(case, folder, program, "nccl")) for case in CASES]
    jobs += [("kill", lambda: kill(folder, program))]
    sys.exit(0 if perform(jobs, until, args.out / "nccl.json", machine.facts(args.build)) else 1)


if __name__ == "__main__":
    main()
