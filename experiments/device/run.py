#!/usr/bin/env python3
"""One part on a machine with a CUDA GPU: see run.sh."""
import argparse
import collections
import datetime
import glob
import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import unseen

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT = 8 * 60  # seconds of a part
TEXT = ROOT / "experiments/data/kjv-new-testament.txt"
TRAIN_GPT = ROOT / "experiments/corpus/measured/train_gpt.py"
SLOW = ['~"A table measured*"', '~"A measurement that*"']  # of the host, half a minute
# Test programs, the tests to omit, and the tests per process: few, so that a crash does not affect all others.
TESTS = [("test_exec", "~[cpu]" + "".join(SLOW), 16), ("test_agree", "[emulated]", 1), ("test_agree", "~[emulated]~[tsan]~[.]", 1)]
TESTERS = 4  # processes at a time: with ten the card spends its time on turns
STEPS = 24
# Cases of train_gpt.py, and the required speed relative to PyTorch.
CASES = [("gpt-125m-s1024-b16-compiled", 1.10), ("gpt-1.3b-s2048-b4-compiled", 1.03), ("llama-3-8b-10-layers-s8192-b1-compiled", 1.02),
         ("gpt-6.7b-12-s2048-b4-compiled", 1.00), ("gpt-125m-s1024-b1", 2.5)]


def first_line(command):
    """Returns the first line that a command prints; empty if it is missing or fails."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


def facts(build):
    card, _, driver = first_line(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).partition(", ")
    commit = build / "commit"
    return {"card": card, "driver": driver, "date": datetime.date.today().isoformat(),
            "commit": commit.read_text(encoding="utf-8").strip() if commit.exists() else ""}


def libraries():
    """Returns the folders of CUDA libraries that PyTorch installs among Python's packages."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations) if spec else []
    return sorted({os.path.dirname(p) for root in roots for p in glob.glob(root + "/*/lib/*.so*")})


def surroundings():
    path = ":".join([*libraries(), os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")
    return os.environ | {"LD_LIBRARY_PATH": path, "TANDEM_PRESETS": str(ROOT), "TANDEM_SOURCE": str(ROOT)}


def train(build, plan, *more):
    return [str(build / "tandem"), "train", str(plan), "--data", str(TEXT), "--backend", "cuda", "--json", *more]


def tests_of(build, out, program, spec, size):
    """Yields (name, command, environment) for groups of `size` tests, from the program's own list."""
    listed = subprocess.run([str(build / program), spec, "--list-test-names-only"], env=surroundings(), capture_output=True, text=True, check=False)
    names = [n.strip() for n in listed.stdout.splitlines() if n.strip()]
    (out / "tests").mkdir(parents=True, exist_ok=True)
    for i in range(0, len(names), size):
        file = out / "tests" / f"{program}-{TESTS.index((program, spec, size))}-{i:03d}"
        file.write_text("".join(n.replace(",", "\\,") + "\n" for n in names[i:i + size]), encoding="utf-8")
        yield (names[i] if size == 1 else file.name, [str(build / program), "--input-file", str(file)],
               {"TANDEM_TEST_BACKEND": "cuda", "OMP_NUM_THREADS": "2"})


def commands(part, build, out):
    """(name, command, environment) of a part; the plans of `bench` are written when it runs."""
    if part == "test":
        return [c for program, spec, size in TESTS for c in tests_of(build, out, program, spec, size)]
    if part == "unseen":
        return [(name, train(build, out / "unseen" / f"{name}.plan.json"), {}) for name in unseen.CASES]
    if part == "curve":
        return [("curve", [sys.executable, str(HERE / "curve.py"), str(build / "tandem"), str(out / "curve_losses.json"), "--steps", "2000"], {})]
    if part == "sanitize":
        return [(f"{kind} {plan}", ["compute-sanitizer", "--print-limit", "100000", "--log-file", str(out / f"{kind}-{plan}.log"), "--tool", kind,
                                    *train(build, HERE / f"plans/{plan}.json", "--steps", "2")], {})
                for kind in ("memcheck", "racecheck", "initcheck") for plan in ("tiny-gpt", "tiny-moe")]
    if part == "kernels":
        return [("kernels", [str(build / "bench_device_kernels"), "--out", str(out / "kernels_table.json")], {})]
    if part == "measure":
        table = out / "cost_table.json"
        return [("cost_table", [str(build / "tandem"), "measure", "--device", "cuda", "--seconds", "240", "--output", str(table)], {})]
    return [(name, train(build, out / "plans" / f"{name}.json", "--steps", str(STEPS)), {}) for name, _ in CASES]


def run(name, command, environment, left):
    """Runs a command. Returns exit code, seconds, the end of its output, and its JSON if it printed any."""
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=surroundings() | environment, capture_output=True, text=True, timeout=left, check=False)
        code, text, told = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as e:
        code, text, told = None, (e.stdout or b"").decode(), f"ended after {left:.0f} s"
    result = {"name": name, "command": " ".join(command), "exit": code, "seconds": round(time.monotonic() - begin, 1),
              "end": (text + told)[-2000:]}
    if "Invalid Filter" in told + text:
        result["exit"] = 1  # Catch2 runs the other tests and is content
    delegated = re.search(r"backend under test: (\d+) operations done, (\d+) by the CPU instead", told)
    if delegated:
        result["done"], result["delegated"] = map(int, delegated.groups())
    if text.lstrip().startswith("{"):
        result["report"] = json.loads(text)
    return result


def own_plan(theirs):
    """PyTorch's plan for Tandem: without the stack's settings for PyTorch's kernels."""
    plan = {k: v for k, v in theirs.items() if k != "stack"}
    plan["training"] = {k: v for k, v in plan["training"].items() if k not in ("fusion", "attention_kernel")}
    return plan


def pytorch(out, name):
    """Measures a case with PyTorch and returns its record."""
    file = out / f"pytorch-{name}.jsonl"
    subprocess.run([sys.executable, str(TRAIN_GPT), str(file), "--names", name], check=False, stdout=subprocess.DEVNULL)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return json.loads(lines[0]) if lines else None


def beside_pytorch(build, out, only, until):
    """Runs each case by Tandem and then by PyTorch."""
    listed = subprocess.run([sys.executable, str(TRAIN_GPT), "-", "--list", "--names", ",".join(n for n, _ in CASES)],
                            capture_output=True, text=True, check=True).stdout
    plans = {p["name"].split("-", 1)[1]: own_plan(p) for p in map(json.loads, listed.splitlines())}
    (out / "plans").mkdir(exist_ok=True)
    results = []
    for name, wanted in CASES:
        if only and only not in name:
            continue
        (out / "plans" / f"{name}.json").write_text(json.dumps(plans[name], indent=2) + "\n", encoding="utf-8")
        command = next(c for n, c, _ in commands("bench", build, out) if n == name)
        result = run(name, command, {}, max(1.0, until - time.monotonic()))
        theirs = pytorch(out, name)
        result["wanted"] = wanted
        if theirs and "report" in result:
            times = [s["step_time_s"] for s in result["report"]["steps"][4:]]
            result["tandem_s"], result["pytorch_s"] = statistics.median(times), theirs["measured"]["step_time_s"]
            result["ratio"] = round(result["pytorch_s"] / result["tandem_s"], 4)
            result["pytorch"] = theirs["details"] | theirs["measured"]
        results.append(result)
        told = f"{1e3 * result['tandem_s']:.2f} ms, PyTorch {1e3 * result['pytorch_s']:.2f} ms, ratio {result['ratio']} (wanted {wanted})" \
            if "ratio" in result else f"exit {result['exit']}: {result['end'][-300:]}"
        print(f"{name}: {told}", flush=True)
    return results


def faults_in(log):
    """compute-sanitizer's findings by kernel: in Tandem's own and in libraries', some of whose barriers it does not know."""
    own, libraries = collections.Counter(), collections.Counter()
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
        kernel = re.search(r" in (\S.*?)(?:\(|\+0x|$)", line)
        if kernel and re.search("Race reported|Invalid|Uninitialized| Error:| at ", line):
            mine = "tandem" in line
            (own if mine else libraries)[kernel.group(1)[:160]] += 1
    return {"own": dict(own), "libraries": dict(libraries)}


def perform(part, build, out, only, seconds):
    until, results = time.monotonic() + seconds, []
    report = facts(build) | {"part": part, "results": results}
    if part == "bench":
        results.extend(beside_pytorch(build, out, only, until))
    elif part == "unseen":
        results.extend(unseen.measure(out, lambda plan, *more: train(build, plan, *more), surroundings(), until, only))
    elif part == "test":
        chosen = [c for c in commands(part, build, out) if not only or only in c[0]]
        with ThreadPoolExecutor(TESTERS) as crew:
            results.extend(crew.map(lambda c: run(*c, max(1.0, until - time.monotonic())), chosen))
        for r in results:
            if r["exit"] != 0:
                print(f"{r['name']}: exit {r['exit']}\n{r['end'][-1200:]}", flush=True)
        print(f"{len(results)} processes of tests, {sum(r['exit'] != 0 for r in results)} failed, {sum(r.get('done', 0) for r in results)} operations "
              f"done, {sum(r.get('delegated', 0) for r in results)} by the CPU instead", flush=True)
    else:
        for name, command, environment in commands(part, build, out):
            if only and only not in name:
                continue
            results.append(run(name, command, environment, max(1.0, until - time.monotonic())))
            if part == "sanitize":
                results[-1] |= faults_in(out / f"{name.replace(' ', '-')}.log")
                print(f"{name}: in Tandem's kernels {results[-1]['own']}, in libraries' {results[-1]['libraries']}", flush=True)
            print(f"{name}: exit {results[-1]['exit']}, {results[-1]['seconds']} s", flush=True)
            (out / f"{part}.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (out / f"{part}.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return all(r["exit"] == 0 for r in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, prog="run.sh")
    parser.add_argument("part", choices=["test", "bench", "kernels", "measure", "unseen", "curve", "sanitize"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=ROOT / "build-device")
    parser.add_argument("--only", help="what of the part has this in its name")
    parser.add_argument("--seconds", type=float, default=LIMIT, help="what is not begun by then is left out [%(default)s]")
    parser.add_argument("--dry", action="store_true", help="print the commands and run nothing")
    args = parser.parse_args()
    if args.dry:
        args.out.mkdir(parents=True, exist_ok=True)
        for _, command, environment in commands(args.part, args.build, args.out):
            print(*(f"{key}={value}" for key, value in environment.items()), *command)
        return
    if (args.out / f"{args.part}.json").exists():
        print(f"{args.out / args.part}.json is there: nothing to do")
        return
    missing = [p for p in (["tandem", *(t[0] for t in TESTS)] if args.part == "test" else ["tandem"]) if not (args.build / p).exists()]
    if missing:
        sys.exit(f"run.sh: {args.build / missing[0]} is not there: build it with experiments/device/build.sh, or name its folder with --build")
    args.out.mkdir(parents=True, exist_ok=True)
    sys.exit(0 if perform(args.part, args.build, args.out, args.only, args.seconds) else 1)


if __name__ == "__main__":
    main()
