#!/usr/bin/env python3
"""One part on a machine with a CUDA GPU: see run.sh."""
import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT = 8 * 60  # seconds of a part
TESTS = [("test_exec", ["~[cpu]"]), ("test_agree", ["[emulated]"])]
STEPS = 20


def first_line(command):
    """What a command prints first; empty where it is not there or fails."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


def facts(build):
    card, _, driver = first_line(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).partition(", ")
    commit = build / "commit"
    return {"card": card, "driver": driver, "date": datetime.date.today().isoformat(),
            "commit": commit.read_text(encoding="utf-8").strip() if commit.exists() else ""}


def commands(part, build, out):
    """(name, command, environment) of a part."""
    if part == "test":
        return [(program, [str(build / program), *spec], {"TANDEM_TEST_BACKEND": "cuda"}) for program, spec in TESTS]
    if part == "measure":
        table = out / "cost_table.json"
        return [("cost_table", [str(build / "tandem"), "measure", "--device", "cuda", "--seconds", "240", "--output", str(table)], {})]
    text = ROOT / "README.md"
    return [(plan.stem, [str(build / "tandem"), "train", str(plan), "--data", str(text), "--backend", "cuda", "--steps", str(STEPS), "--json"],
             {}) for plan in sorted((HERE / "plans").glob("*.json"))]


def run(name, command, environment, left):
    """What a command came to: its exit code, seconds, the end of what it printed, and its JSON where it printed some."""
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=left, check=False)
        code, text, told = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as e:
        code, text, told = None, (e.stdout or b"").decode(), f"ended after {left:.0f} s"
    result = {"name": name, "command": " ".join(command), "exit": code, "seconds": round(time.monotonic() - begin, 1),
              "end": (text + told)[-2000:]}
    delegated = re.search(r"backend under test: (\d+) operations done, (\d+) by the CPU instead", told)
    if delegated:
        result["done"], result["delegated"] = map(int, delegated.groups())
    if text.lstrip().startswith("{"):
        result["report"] = json.loads(text)
    return result


def perform(part, build, out):
    until, results = time.monotonic() + LIMIT, []
    for name, command, environment in commands(part, build, out):
        results.append(run(name, command, environment, max(1.0, until - time.monotonic())))
        print(f"{name}: exit {results[-1]['exit']}, {results[-1]['seconds']} s", flush=True)
    report = facts(build) | {"part": part, "results": results}
    (out / f"{part}.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return all(r["exit"] == 0 for r in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, prog="run.sh")
    parser.add_argument("part", choices=["test", "bench", "measure"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=ROOT / "build-device")
    parser.add_argument("--dry", action="store_true", help="print the commands and run nothing")
    args = parser.parse_args()
    if args.dry:
        for _, command, environment in commands(args.part, args.build, args.out):
            print(*(f"{key}={value}" for key, value in environment.items()), *command)
        return
    if (args.out / f"{args.part}.json").exists():
        print(f"{args.out / args.part}.json is there: nothing to do")
        return
    missing = [c[0] for _, c, _ in commands(args.part, args.build, args.out) if not Path(c[0]).exists()]
    if missing:
        sys.exit(f"run.sh: {missing[0]} is not there: build it with experiments/device/build.sh, or name its folder with --build")
    args.out.mkdir(parents=True, exist_ok=True)
    sys.exit(0 if perform(args.part, args.build, args.out) else 1)


if __name__ == "__main__":
    main()
