#!/usr/bin/env python3
"""Trains a plan in fp32 and bf16 from the same seeds and compares the losses; writes one JSON file. If stopped, it continues there.

usage: run.py [--tandem build/tandem] [--plan gpt-1.6m.json] [--seeds 1 2 3] [--precisions fp32 bf16] [--jobs 1] [--out result.json]
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parents[1] / "data" / "kjv-new-testament.txt"
LAST = 50  # steps whose mean loss is compared


def trained(tandem, plan, precision, seed):
    plan["training"].update(precision=precision, seed=seed)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        done = subprocess.run([tandem, "train", file.name, "--data", TEXT, "--json"], stdout=subprocess.PIPE, check=True)
    report = json.loads(done.stdout)
    return {"losses": [round(s["loss"], 5) for s in report["steps"]], "skipped": sum(s["skipped"] for s in report["steps"]),
            "step_time_s": report["step_time_s"]}


def mean(values):
    return sum(values) / len(values)


def summary(runs, reference, precision, seed):
    loss, other = (runs[f"{p} {seed}"]["losses"] for p in (precision, reference))
    return {"precision": precision, "seed": seed, "first": loss[0], "last": round(mean(loss[-LAST:]), 5),
            "below_start_nats": round(loss[0] - mean(loss[-LAST:]), 4),
            "apart_percent": round(100 * (mean(loss[-LAST:]) / mean(other[-LAST:]) - 1), 4)}


def table(runs, o):
    return [summary(runs, o.precisions[0], p, s) for s in o.seeds for p in o.precisions
            if f"{p} {s}" in runs and f"{o.precisions[0]} {s}" in runs]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tandem", default=str(HERE.parents[2] / "build" / "tandem"))
    parser.add_argument("--plan", type=pathlib.Path, default=HERE / "gpt-1.6m.json")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "result.json")
    o = parser.parse_args()
    plan = json.loads(o.plan.read_text())
    kept = json.loads(o.out.read_text()) if o.out.exists() else {}
    runs = kept.get("runs", {}) if kept.get("plan") == plan else {}
    wanted = [(p, s) for s in o.seeds for p in o.precisions if f"{p} {s}" not in runs]
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        done = {pool.submit(trained, o.tandem, json.loads(o.plan.read_text()), p, s): f"{p} {s}" for p, s in wanted}
        for run in concurrent.futures.as_completed(done):
            runs[done[run]] = run.result()
            o.out.write_text(json.dumps({"plan": plan, "summary": table(runs, o), "runs": runs}) + "\n")
    rows = table(runs, o)
    for row in rows:
        print(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
