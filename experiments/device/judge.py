#!/usr/bin/env python3
"""Compares runs of `run.sh unseen` with their predictions: judge.py TANDEM RECORDS.json [--leave-out NAME ...]

A line a plan: step predicted and measured, memory predicted and as the driver counts, and the median error of its kinds of operations
that take a hundredth of the step or more. Records: experiments/corpus/measured/h100/unseen.json.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def seconds_by_kind(timeline):
    """Returns {kind: [tasks, seconds]} of a timeline's first lane."""
    out = {}
    for span in timeline["lanes"][0]["spans"]:
        task = timeline["tasks"][span[0]]
        entry = out.setdefault(task["kind"], [0, 0.0])
        entry[0] += 1
        entry[1] += (span[8] - span[7]) * 1e-12
    return {k: [n, float(f"{s:.5g}")] for k, (n, s) in sorted(out.items())}


def predicted(tandem, plan):
    with tempfile.TemporaryDirectory() as folder:
        file, timeline = Path(folder) / "plan.json", Path(folder) / "timeline.json"
        file.write_text(json.dumps(plan), encoding="utf-8")
        done = subprocess.run([tandem, "simulate", str(file), "--stack", "tandem", "--json", "--timeline", str(timeline)], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit(f"judge.py: {plan['name']}: {done.stderr}")
        return json.loads(done.stdout), seconds_by_kind(json.loads(timeline.read_text(encoding="utf-8")))


def judge(tandem, record):
    report, kinds = predicted(tandem, record["plan"])
    large = {k: s for k, (_, s) in record["kinds"].items() if s >= 0.01 * record["step_time_s"]}
    errors = [abs(kinds[k][1] / s - 1) for k, s in large.items() if k in kinds]
    joined = all(k in kinds and kinds[k][0] == n for k, (n, _) in record["kinds"].items())
    return {"name": record["name"], "step": report["step_time_s"] / record["step_time_s"] - 1, "predicted_s": report["step_time_s"],
            "measured_s": record["step_time_s"], "memory": report["roles"][0]["peak_memory_bytes"] / record["device_bytes"] - 1,
            "operations": statistics.median(errors), "joined": joined}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tandem")
    parser.add_argument("records", type=Path)
    parser.add_argument("--leave-out", nargs="*", default=[])
    args = parser.parse_args()
    records = [r for r in json.loads(args.records.read_text(encoding="utf-8"))["plans"] if r["name"] not in args.leave_out]
    rows = [judge(args.tandem, r) for r in records]
    for r in rows:
        print(f"{r['name']:26s} {1e3 * r['predicted_s']:9.2f} ms {1e3 * r['measured_s']:9.2f} ms {100 * r['step']:+6.1f} %  memory {100 * r['memory']:+5.2f} %"
              f"  operations {100 * r['operations']:4.1f} %{'' if r['joined'] else '  tasks differ'}")
    steps, memory = [abs(r["step"]) for r in rows], [abs(r["memory"]) for r in rows]
    print(f"{len(rows)} plans: step mean {100 * statistics.mean(steps):.1f} %, median {100 * statistics.median(steps):.1f} %, worst {100 * max(steps):.1f} %; "
          f"memory worst {100 * max(memory):.2f} %; operations median {100 * statistics.median(r['operations'] for r in rows):.1f} %")


if __name__ == "__main__":
    main()
