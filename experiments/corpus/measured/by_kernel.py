#!/usr/bin/env python3
"""Compares a measured training step's time by GPU kernel with the simulation of the same plan, by class of kernels.

    by_kernel.py build/tandem h100/steps_by_kernel.json h100/train.jsonl [--only ID...] [--json]

PROFILE is what `train_gpt.py --kernels` writes ({record: [{kernel, calls, seconds}]}, one device's kernels of one step);
RECORDS are the JSON lines of the same runs, with plan and measured step time. Only records in both are compared. A kernel's
class is told by its name here, a simulated task's by the rules of reports/trace/classes.json:

products      matrix products with what they add or scale in their epilogue, also those of attention with a score matrix
attention     attention without a score matrix; softmax of scores
norms         layer norm and RMS norm, whole or in single operations, with their parameters' gradients and what is fused with them
optimizer     the gradients' norm, clipping, the update, copies of its weights, clearing of gradients
gradient sums 16-bit gradients added to the main ones
loss          cross entropy, with the casts of the logits and of their gradient
pointwise     all else: activations, additions, copies, rotations, sums of biases' gradients, embeddings

Times are in ms. "in no kernel" is the step's time less the sum: the card waited for the host. The measured step ran without the
profiler, so where the card is always busy it may be a little below zero. Exit codes: 0; 2 bad command line; 3 bad
input (file, record and reason on stderr); that of `tandem simulate` where a plan cannot be simulated.
"""
import argparse
import fnmatch
import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

POINTWISE = "pointwise"
# The first pattern found in a kernel's name determines its class. torch.compile's kernels (triton_...) list all operations.
KERNELS = [
    ("attention", r"cudnn|sdpa|fmha|flash"),
    ("products", r"nvjet|gemm|gemv|cutlass|splitK"),
    ("norms", r"layer_norm|rms_norm|GammaBeta"),
    ("loss", r"LogSoftMax|log_softmax|nll_loss"),
    ("attention", r"SoftMax|softmax"),
    ("optimizer", r"multi_tensor_apply|FusedOptimizer|lpnorm|NormTwoOps"),
    ("gradient sums", r"CUDAFunctor_add<float>"),
    # The cast of the logits to fp32, and the zeros and cast of their gradient: the only casts and fp32 fills of this size.
    ("loss", r"unrolled_elementwise_kernel<(at::native::)?direct_copy|bfloat16_copy_kernel|FillFunctor<float>"),
]
CLASSES = ["products", "attention", "norms", "optimizer", "gradient sums", "loss", POINTWISE]
TASK_RULES = pathlib.Path(__file__).resolve().parents[3] / "reports" / "trace" / "classes.json"  # classes of simulated tasks


class Bad(Exception):
    """Input that cannot be compared. Has an exit code; the message names the input and the reason."""

    def __init__(self, message, code=3):
        super().__init__(message)
        self.code = code


def kernel_class(name):
    return next((c for c, pattern in KERNELS if re.search(pattern, name)), POINTWISE)


@functools.cache
def task_rules():
    """[(class, {block, task or kind: [patterns]})]; the first rule decides whose patterns all match."""
    return [(rule["class"], {key: rule[key] for key in ("block", "task", "kind") if key in rule})
            for rule in json.loads(TASK_RULES.read_text(encoding="utf-8"))["tasks"]]


def task_class(task):
    def holds(rule):
        return all(any(fnmatch.fnmatchcase(task[key], pattern) for pattern in patterns) for key, patterns in rule.items())

    found = next((name for name, rule in task_rules() if holds(rule)), None)
    if found not in CLASSES:
        raise Bad(f"the operation {task['kind']} (task {task['block']}.{task['task']}) has {f'the class {found}' if found else 'no class'}, "
                  "which no kernel has here")
    return found


def measured_classes(rows):
    """Returns the seconds of a profile's rows by class."""
    seconds = dict.fromkeys(CLASSES, 0.0)
    for row in rows:
        seconds[kernel_class(row["kernel"])] += row["seconds"]
    return seconds


def simulated_classes(timeline):
    """Returns the seconds by class on the only device of a timeline file."""
    if len(timeline["lanes"]) != 1 or len(timeline["lanes"][0]["ranks"]) != 1:
        raise Bad("its plan has several devices; a profile is of one")
    tasks, column = timeline["tasks"], {name: i for i, name in enumerate(timeline["span_columns"])}
    if any(task["stream"] != "compute" for task in tasks):
        raise Bad("its plan has more than one stream, so times of tasks do not add up to the step")
    seconds = dict.fromkeys(CLASSES, 0.0)
    for span in timeline["lanes"][0]["spans"]:
        seconds[task_class(tasks[span[column["task"]]])] += 1e-12 * (span[column["ended_ps"]] - span[column["started_ps"]])
    return seconds


def simulate(tandem, plan):
    """Simulates a plan and returns its timeline."""
    with tempfile.TemporaryDirectory(prefix="by_kernel_") as folder:
        files = pathlib.Path(folder, "plan.json"), pathlib.Path(folder, "timeline.json")
        files[0].write_text(json.dumps(plan), encoding="utf-8")
        command = [tandem, "simulate", str(files[0]), "--timeline", str(files[1]), "--allow-oversize"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise Bad(f"{tandem}: {error.strerror}", 2) from error
        if done.returncode != 0:
            raise Bad(f"tandem simulate exits with {done.returncode}: {done.stderr.strip()}", done.returncode)
        return json.loads(files[1].read_text(encoding="utf-8"))


def pair(measured, predicted):
    """Times and their ratio, which is null if nothing was measured."""
    return {"measured_s": measured, "predicted_s": predicted, "ratio": predicted / measured if measured > 0 else None}


def compared(name, steps, classes):
    """The --json entry of a record or the total. Steps and classes are (measured, predicted)."""
    sums = [sum(c.values()) for c in classes]
    rest = {"measured_s": steps[0] - sums[0], "predicted_s": steps[1] - sums[1]}
    return {"id": name, "classes": {c: pair(*(side[c] for side in classes)) for c in CLASSES}, "sum": pair(*sums),
            "in_no_kernel": rest, "step": pair(*steps)}


def record_of(tandem, record, rows):
    timeline = simulate(tandem, record["plan"])
    steps = record["measured"]["step_time_s"], 1e-12 * timeline["step_time_ps"]
    return compared(record["id"], steps, (measured_classes(rows), simulated_classes(timeline)))


def total_of(found):
    keys = "measured_s", "predicted_s"
    classes = [{c: sum(record["classes"][c][key] for record in found) for c in CLASSES} for key in keys]
    steps = [sum(record["step"][key] for record in found) for key in keys]
    return compared(f"{len(found)} record{'s' * (len(found) != 1)}", steps, classes)


def table(record):
    """A record as text, one line per class."""
    rows = [*record["classes"].items(), ("sum", record["sum"]), ("in no kernel", record["in_no_kernel"]), ("step", record["step"])]
    lines = [f"{record['id']}\n{'':14s}{'measured':>11s}{'predicted':>11s}{'ratio':>7s}  ms"]
    for name, p in rows:
        ratio = f"{'-':>7s}" if p.get("ratio") is None else f"{p['ratio']:7.2f}"
        lines.append(f"{name:14s}{1e3 * p['measured_s']:11.2f}{1e3 * p['predicted_s']:11.2f}{ratio}")
    return "\n".join(lines)


def summary(total):
    """One line with predicted / measured of every class, over all records."""
    parts = [(c, total["classes"][c]) for c in CLASSES] + [("sum", total["sum"]), ("step", total["step"])]
    return f"predicted / measured of {total['id']}: " + ", ".join(
        f"{name} {p['ratio']:.2f}" for name, p in parts if p["ratio"] is not None)


def read(path, parse):
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Bad(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Bad(f"{path}: not what is expected: {type(error).__name__}: {error}") from error


def profile_of(text):
    profile = json.loads(text)
    for name, rows in profile.items():
        if not rows:
            raise ValueError(f"{name} has no kernels")
        for row in rows:
            if not isinstance(row["kernel"], str) or not row["seconds"] >= 0:
                raise ValueError(f"{name}: {json.dumps(row)}: kernel is a name, seconds are 0 or more")
    return profile


def records_of(text):
    records = {}
    for number, line in enumerate(filter(str.strip, text.splitlines()), 1):
        record = json.loads(line)
        if not isinstance(record["plan"], dict) or not record["measured"]["step_time_s"] > 0:
            raise ValueError(f"record {number}: plan is an object, measured.step_time_s more than 0")
        records[record["id"]] = record
    return records


def chosen(profile, records, only):
    """Returns the ids to compare, in the records' order."""
    both = [name for name in records if name in profile]
    if not both:
        raise Bad("no record is in both the profile and the records")
    missing = [name for name in only or [] if name not in both]
    if missing:
        raise Bad(f"--only {missing[0]}: not in both the profile and the records, which have {', '.join(both)}")
    return [name for name in both if not only or name in only]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", help="the program")
    parser.add_argument("profile", type=pathlib.Path, help="time by kernel of steps, as train_gpt.py --kernels writes it")
    parser.add_argument("records", type=pathlib.Path, help="JSON lines: id, plan, measured.step_time_s")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these records, by their whole id")
    parser.add_argument("--json", action="store_true", help="one object instead of tables; times in seconds")
    o = parser.parse_args()
    try:
        profile, records = read(o.profile, profile_of), read(o.records, records_of)
        found = []
        for name in chosen(profile, records, o.only):
            try:
                found.append(record_of(o.tandem, records[name], profile[name]))
            except Bad as bad:
                raise Bad(f"{name}: {bad}", bad.code) from bad
    except Bad as bad:
        print(f"{pathlib.Path(sys.argv[0]).name}: {bad}", file=sys.stderr)
        sys.exit(bad.code)
    if o.json:
        print(json.dumps({"schema_version": 1, "records": found, "total": total_of(found)}, indent=1))
        return
    print("\n\n".join([*map(table, found), summary(total_of(found))]))


if __name__ == "__main__":
    main()
