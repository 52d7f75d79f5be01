#!/usr/bin/env python3
"""One part on a machine with a CUDA GPU: see run.sh."""
import argparse
import collections
import json
import re
import statistics
import sys
import tarfile
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import unseen
from machine import ROOT, cluster, ended, facts, surroundings, tool, unpack, unsuitable

HERE = Path(__file__).resolve().parent
LIMIT = 8 * 60  # seconds of a part
LEAST = 3       # seconds: with less time left nothing begins
ENOUGH = 25     # seconds for one command of `sanitize`: memcheck of tiny-gpt took 15 on an H100
WORK = Path(tempfile.gettempdir()) / "tandem-device"  # plans, lists and logs, which nobody reads later
# Parts of `all`, in order, and their shares of its time; what one leaves goes to the later ones.
SHARES = {"test": 0.27, "new": 0.15, "nccl": 0.1, "sanitize": 0.13, "bench": 0.25, "kernels": 0.1}
TEXT = ROOT / "experiments/data/kjv-new-testament.txt"
TRAIN_GPT = ROOT / "experiments/corpus/measured/train_gpt.py"
SLOW = ['~"A table measured*"', '~"A measurement that*"']  # of the host, half a minute
# Files of test_exec with the kernels that were written last, which come first.
NEW = ["kernel_documents_test", "documents_kernels_test", "kernel_backend_test", "counted_products_test", "kernel_recurrence_test", "kernel_indexer_test", "kernel_latent_test", "kernel_relative_bias_test", "kernel_row_norm_test", "kernel_caps_test", "kernel_head_norm_test",
       "kernel_context_test", "kernel_routing_test", "kernel_expert_slots_test", "kernel_sign_step_test", "kernel_layerwise_test", "kernel_window_test", "kernel_moe_test",
       "wide_kernels_test", "recurrence_kernels_test", "own_attention_test"]
NEW_TESTS, OLD_TESTS = ",".join(f"[#{f}]~[cpu]" for f in NEW), "~[cpu]" + "".join(f"~[#{f}]" for f in NEW) + "".join(SLOW)
# Test programs, their tests, and the tests per process: few, so that a crash does not affect all others.
TESTS = [("test_exec", NEW_TESTS, 8), ("test_agree", "[emulated]", 1), ("test_exec", OLD_TESTS, 16), ("test_agree", "~[emulated]~[tsan]~[.]", 1)]
# What `sanitize` runs of them: single kernels. Tests that compare gradients with slopes launch thousands, too many for its tools.
SANITIZED = "[#recurrence_kernels_test],[#wide_kernels_test],[#documents_kernels_test]"
TESTERS = 4  # processes at a time: with ten the card spends its time on turns
STEPS = 24
# Cases of train_gpt.py, and the required speed relative to PyTorch.
CASES = [("gpt-125m-s1024-b16-compiled", 1.10), ("gpt-1.3b-s2048-b4-compiled", 1.03), ("llama-3-8b-10-layers-s8192-b1-compiled", 1.02),
         ("gpt-6.7b-12-s2048-b4-compiled", 1.00), ("gpt-125m-s1024-b1", 2.5)]


def train(build, plan, *more):
    return [str(build / "tandem"), "train", str(plan), "--data", str(TEXT), "--backend", "cuda", "--json", *more]


def tests_of(build, program, spec, size):
    """Yields (name, command, environment) for groups of `size` tests, from the program's own list."""
    code, listed, told = ended([str(build / program), "-#", spec, "--list-test-names-only"], surroundings(), 60)
    names = [n.strip() for n in listed.splitlines() if n.strip()]
    if (build / program).exists() and (code is None or not names):  # else the exit code is the number of tests
        sys.exit(f"run.sh: {build / program} lists no tests: exit {code}: {told[-800:]}")
    (WORK / "tests").mkdir(parents=True, exist_ok=True)
    for i in range(0, len(names), size):
        file = WORK / "tests" / f"{program}-{TESTS.index((program, spec, size))}-{i:03d}"
        file.write_text("".join(n.replace(",", "\\,") + "\n" for n in names[i:i + size]), encoding="utf-8")
        yield (names[i] if size == 1 else file.name, [str(build / program), "--input-file", str(file)],
               {"TANDEM_TEST_BACKEND": "cuda", "OMP_NUM_THREADS": "2"})


def commands(part, build, out):
    """(name, command, environment) of a part; the plans of `bench` are written when it runs."""
    if part == "test":
        ring = ("ring", [sys.executable, str(HERE / "ring.py"), "--build", str(build)], {})
        return [ring, *(c for program, spec, size in TESTS for c in tests_of(build, program, spec, size))]
    if part == "new":
        return [(plan.stem, train(build, plan, "--steps", "3"), {}) for plan in sorted((HERE / "plans/new").glob("*.json"))]
    if part == "unseen":
        return [(name, train(build, WORK / "unseen" / f"{name}.plan.json"), {}) for name in unseen.CASES]
    if part == "curve":
        return [("curve", [sys.executable, str(HERE / "curve.py"), str(build / "tandem"), str(out / "curve_losses.json"), "--steps", "2000"], {})]
    if part == "sanitize":
        programs = [(plan, train(build, HERE / f"plans/{plan}.json", "--steps", "2")) for plan in ("tiny-gpt", "tiny-moe")]
        programs.append(("new-kernels", [str(build / "test_exec"), "-#", SANITIZED]))
        return [(f"{kind} {what}", [tool("compute-sanitizer"), "--print-limit", "100000", "--log-file", str(WORK / f"{kind}-{what}.log"), "--tool", kind, *program],
                 {"TANDEM_TEST_BACKEND": "cuda"})
                for kind in ("memcheck", "initcheck", "racecheck") for what, program in programs]
    if part == "kernels":
        return [("kernels", [str(build / "bench_device_kernels"), "--out", str(out / "kernels_table.json")], {})]
    if part == "measure":
        table = out / "cost_table.json"
        return [("cost_table", [str(build / "tandem"), "measure", "--device", "cuda", "--seconds", "240", "--out", str(table)], {})]
    if part == "nccl":
        return [("nccl", [sys.executable, str(HERE / "nccl.py"), "--out", str(out), "--build", str(build)], {})]
    return [(name, train(build, WORK / "plans" / f"{name}.json", "--steps", str(STEPS)), {}) for name, _ in CASES]


def run(name, command, environment, left):
    """Runs a command. Returns exit code, seconds, the end of its output, and its JSON if it printed any."""
    if left < LEAST:
        return {"name": name, "command": " ".join(command), "exit": None, "seconds": 0, "end": "not begun: no time left"}
    begin = time.monotonic()
    code, text, told = ended(command, surroundings() | environment, left)
    result = {"name": name, "command": " ".join(command), "exit": code, "seconds": round(time.monotonic() - begin, 1),
              "end": (text + told)[-2000:]}
    if "Invalid Filter" in told + text:
        result["exit"] = 1  # Catch2 runs the other tests and is content
    delegated = re.search(r"backend under test: (\d+) operations done, (\d+) by the CPU instead", told)
    if delegated:
        result["done"], result["delegated"] = map(int, delegated.groups())
    if code is not None and text.lstrip().startswith("{"):
        try:
            result["report"] = json.loads(text)
        except ValueError as e:
            result["exit"], result["end"] = 1, f"no JSON: {e}: {result['end']}"
    return result


def own_plan(theirs):
    """PyTorch's plan for Tandem: without the stack's settings for PyTorch's kernels."""
    plan = {k: v for k, v in theirs.items() if k != "stack"}
    plan["training"] = {k: v for k, v in plan["training"].items() if k not in ("fusion", "attention_kernel")}
    return plan


def pytorch(name, left):
    """Measures a case with PyTorch. Returns its record, or None, and the end of its output."""
    file = WORK / f"pytorch-{name}.jsonl"
    file.unlink(missing_ok=True)
    _, text, told = ended([sys.executable, str(TRAIN_GPT), str(file), "--names", name], None, left)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return json.loads(lines[0]) if lines else None, (text + told)[-1000:]


def plans_of_cases():
    """Returns the plans of CASES by name. Needs PyTorch."""
    code, text, told = ended([sys.executable, str(TRAIN_GPT), "-", "--list", "--names", ",".join(n for n, _ in CASES)], None, 120)
    if code != 0:
        sys.exit(f"run.sh: PyTorch lists no plans: {told[-1500:]}")
    return {p["name"].split("-", 1)[1]: own_plan(p) for p in map(json.loads, text.splitlines())}


def beside_pytorch(build, out, chosen, until):
    """Runs each case by Tandem and then by PyTorch."""
    plans = plans_of_cases()
    (WORK / "plans").mkdir(parents=True, exist_ok=True)
    for name, wanted in CASES:
        if not chosen(name):
            continue
        (WORK / "plans" / f"{name}.json").write_text(json.dumps(plans[name], indent=2) + "\n", encoding="utf-8")
        command = next(c for n, c, _ in commands("bench", build, out) if n == name)
        result = run(name, command, {}, until - time.monotonic())
        theirs, told = pytorch(name, max(LEAST, until - time.monotonic())) if "report" in result else (None, "")
        result["wanted"] = wanted
        if theirs:
            times = [s["step_time_s"] for s in result["report"]["steps"][4:]]
            result["tandem_s"], result["pytorch_s"] = statistics.median(times), theirs["measured"]["step_time_s"]
            result["ratio"] = round(result["pytorch_s"] / result["tandem_s"], 4)
            result["pytorch"] = theirs["details"] | theirs["measured"]
        elif "report" in result:
            result["exit"], result["end"] = 1, "PyTorch: " + told
        print(f"{name}: " + (f"{1e3 * result['tandem_s']:.2f} ms, PyTorch {1e3 * result['pytorch_s']:.2f} ms, ratio {result['ratio']} (wanted {wanted})"
                             if "ratio" in result else f"exit {result['exit']}: {result['end'][-300:]}"), flush=True)
        yield result


FOUND = re.compile("Race reported|Invalid|Uninitialized|Misaligned|Barrier error|Program hit")
PLACE = re.compile(r"\bat (?:0x[0-9a-f]+ in )?(\S.*?)(?: in \S+:\d+| \[\d+ hazards\])?$")


def faults_in(log):
    """compute-sanitizer's findings by kernel: in Tandem's own and in libraries', some of whose barriers it does not know. A finding
    names its kernel in its own line (races) or in the next one. `told`: the tool's own counts."""
    own, libraries, told, open_ = collections.Counter(), collections.Counter(), [], False
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []:
        if "SUMMARY" in line:
            told.append(line.strip("= "))
        open_ = open_ or FOUND.search(line) is not None
        place = PLACE.search(line) if open_ else None
        if place:
            (own if "tandem" in place.group(1) else libraries)[place.group(1).partition("+0x")[0][:160]] += 1
            open_ = False
    return {"own": dict(own), "libraries": dict(libraries), "told": told}


def fair(left, jobs):
    """Seconds for the next of so many commands: one that is too slow for its tool must not cost the others theirs, and with little
    time left some commands end instead of none."""
    return min(left, max(left / jobs, ENOUGH))


def well(result):
    """True if there is no reason to run it again."""
    return result["exit"] == 0 and not result.get("own")


def earlier(file):
    """Results of an earlier run of the part that ended well."""
    return [r for r in json.loads(file.read_text(encoding="utf-8"))["results"] if well(r)] if file.exists() else []


def results_of(part, build, out, chosen, until):
    """Yields results as they are made."""
    jobs = [c for c in commands(part, build, out) if chosen(c[0])] if part not in ("bench", "unseen") else []
    if part == "bench":
        yield from beside_pytorch(build, out, chosen, until)
    elif part == "unseen":
        yield from unseen.measure(WORK, out, lambda plan, *more: train(build, plan, *more), surroundings(), until, chosen, cluster())
    elif part == "test":
        yield from tested(jobs, until)
    else:
        for i, (name, command, environment) in enumerate(jobs):
            left = until - time.monotonic()
            if part == "sanitize":
                left = fair(left, len(jobs) - i)
            result = run(name, command, environment, left)
            if part == "sanitize":
                result |= faults_in(WORK / f"{name.replace(' ', '-')}.log")
                print(f"{name}: in Tandem's kernels {result['own']}, in libraries' {result['libraries']}, {result['told']}", flush=True)
            print(f"{name}: exit {result['exit']}, {result['seconds']} s", flush=True)
            yield result
    if part == "sanitize":
        with tarfile.open(out / "sanitize.tar.xz", "w:xz", preset=1) as packed:
            for log in sorted(WORK.glob("*check-*.log")):
                packed.add(log, log.name)


def tested(jobs, until):
    """Yields the results of tests, several of which run at a time."""
    with ThreadPoolExecutor(TESTERS) as crew:
        for ending in as_completed([crew.submit(lambda c=c: run(*c, until - time.monotonic())) for c in jobs]):
            result = ending.result()
            if result["exit"] not in (0, None):
                print(f"{result['name']}: exit {result['exit']}\n{result['end'][-1200:]}", flush=True)
            yield result


def perform(part, build, out, only, seconds):
    """Runs a part. Its file is written after every result, so that an end from outside loses one."""
    until, file = time.monotonic() + seconds, out / f"{part}.json"
    results = earlier(file)
    known = {r["name"] for r in results}
    report = facts(build) | {"part": part, "results": results}

    def chosen(name):
        return name not in known and (not only or any(o in name for o in only.split(",")))

    for result in results_of(part, build, out, chosen, until):
        results.append(result)
        file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if part == "test":
        print(f"{len(results)} processes of tests, {sum(r['exit'] not in (0, None) for r in results)} failed, {sum(r['exit'] is None for r in results)} cut off "
              f"or not begun, {sum(r.get('done', 0) for r in results)} operations done, {sum(r.get('delegated', 0) for r in results)} by the CPU instead",
              flush=True)
    return all(map(well, results))


def perform_all(build, out, only, seconds):
    """Runs the parts of SHARES. A part that breaks does not end the others."""
    until, good = time.monotonic() + seconds, True
    for i, part in enumerate(SHARES):
        left, rest = until - time.monotonic(), sum(list(SHARES.values())[i:])
        try:
            if part == "nccl":
                code, told, err = ended([*commands(part, build, out)[0][1], "--seconds", str(left * SHARES[part] / rest)], None, left)
                print(told + (err[-1500:] if code != 0 else ""), flush=True)
                good = good and code == 0
            else:
                good = perform(part, build, out, only, left * SHARES[part] / rest) and good
        except (Exception, SystemExit):
            good = False
            print(f"{part}: {traceback.format_exc()}", flush=True)
        print(f"== {part}: {left - (until - time.monotonic()):.0f} s", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, prog="run.sh")
    parser.add_argument("part", choices=["all", "test", "new", "bench", "kernels", "measure", "unseen", "curve", "sanitize"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=ROOT / "build-device")
    parser.add_argument("--programs", type=Path, help="programs.tar.xz of build.sh, to unpack into --build if that lacks programs [there or beside it]")
    parser.add_argument("--only", help="what of the part has this in its name, or one of these with commas between them")
    parser.add_argument("--seconds", type=float, default=LIMIT, help="what is not begun by then is left out [%(default)s]")
    parser.add_argument("--dry", action="store_true", help="print the commands and run nothing")
    args = parser.parse_args()
    unpack(args.build, args.programs)
    if args.dry:
        args.out.mkdir(parents=True, exist_ok=True)
        for _, command, environment in (c for part in (SHARES if args.part == "all" else [args.part]) for c in commands(part, args.build, args.out)):
            print(*(f"{key}={value}" for key, value in environment.items()), *command)
        return
    needed = {"test": ["tandem", *(t[0] for t in TESTS)], "sanitize": ["tandem", "test_exec"], "kernels": ["bench_device_kernels"]}
    needed["all"] = [*needed["test"], *needed["kernels"]]
    missing = [p for p in needed.get(args.part, ["tandem"]) if not (args.build / p).exists()]
    if missing:
        sys.exit(f"run.sh: {args.build / missing[0]} is not there: name the folder of programs with --build, or give programs.tar.xz, which "
                 "experiments/device/build.sh makes on a machine with network, with --programs")
    if problem := unsuitable(args.build):
        sys.exit(f"run.sh: {problem}")
    for folder in (args.out, WORK):
        folder.mkdir(parents=True, exist_ok=True)
    good = perform_all(args.build, args.out, args.only, args.seconds) if args.part == "all" else \
        perform(args.part, args.build, args.out, args.only, args.seconds)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
