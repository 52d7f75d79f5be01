#!/usr/bin/env python3
"""Fits the step times of a source's runs by their numbers of layers and micro-batches.

    layer_profiles.py build/tandem RECORDS.jsonl

Records of one hidden size, sequence, tensor size, micro-batch, pipeline and data size that differ in layers L and micro-batches m
are taken for m (L a + b) + L c + d, by least squares where they are more than four. Printed is a, a layer's time for a micro-batch
over all its devices (p stages have p a), as measured and as `tandem validate` predicts it, b likewise, and how far the measured
times are from the law at most: the noise of steps that were timed is a percent and more, times that were composed of profiles
agree to a part in a thousand. Times in ms. Exit codes: 0; 2 bad command line; 3 bad or unreadable input; that of `tandem
validate` where it fails.
"""
import argparse
import json
import subprocess
import sys

UNKNOWNS = 4


def kind(plan):
    """Returns the key that groups plans, and their layers and micro-batches. KeyError if the plan omits a field."""
    model, parallel, training = plan["model"], plan["parallel"], plan["training"]
    data = parallel.get("data", 1)
    micro = training["micro_batch_size"]
    key = (model["hidden_size"], training["seq_length"], parallel.get("tensor", 1), micro, parallel.get("pipeline", 1), data)
    return key, model["num_layers"], training["global_batch_size"] // (micro * data)


def solve(rows, values):
    """Least squares by normal equations with scaled columns; None if the rows do not determine the unknowns."""
    scale = [max(abs(row[i]) for row in rows) for i in range(UNKNOWNS)]
    rows = [[x / s for x, s in zip(row, scale)] for row in rows]
    a = [[sum(r[i] * r[j] for r in rows) for j in range(UNKNOWNS)] + [sum(r[i] * v for r, v in zip(rows, values))]
         for i in range(UNKNOWNS)]
    for i in range(UNKNOWNS):
        pivot = max(range(i, UNKNOWNS), key=lambda r: abs(a[r][i]))
        if abs(a[pivot][i]) < 1e-9:
            return None
        a[i], a[pivot] = a[pivot], a[i]
        for r in range(UNKNOWNS):
            if r != i:
                f = a[r][i] / a[i][i]
                a[r] = [x - f * y for x, y in zip(a[r], a[i])]
    return [a[i][UNKNOWNS] / a[i][i] / scale[i] for i in range(UNKNOWNS)]


def profiles(judged, plans):
    """Returns rows (kind, records, measured solution, predicted solution, largest deviation of the measured times)."""
    groups = {}
    for record in judged:
        measured, predicted = record["measured_step_time_s"], record["predicted_step_time_s"]
        if measured and predicted:
            key, layers, micro_batches = kind(plans[record["id"]])
            groups.setdefault(key, []).append(([micro_batches * layers, micro_batches, layers, 1], 1e3 * measured, 1e3 * predicted))
    for key in sorted(groups):
        rows, measured, predicted = zip(*groups[key])
        found, said = (solve(rows, measured), solve(rows, predicted)) if len(rows) > UNKNOWNS else (None, None)
        if found:
            off = max(abs(sum(x * u for x, u in zip(row, found)) / v - 1) for row, v in zip(rows, measured))
            yield key, len(rows), found, said, off


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", help="the program")
    parser.add_argument("records", help="a measurement file")
    options = parser.parse_args()
    try:
        with open(options.records, encoding="utf-8") as file:
            plans = {r["id"]: r["plan"] for r in map(json.loads, filter(str.strip, file))}
        for plan in plans.values():
            kind(plan)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        reason = f"a record or its plan lacks {error}" if isinstance(error, KeyError) else str(error)
        print(f"layer_profiles.py: error: {options.records}: {reason}", file=sys.stderr)
        return 3
    judged = subprocess.run([options.tandem, "validate", options.records, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    if judged.returncode:
        return judged.returncode
    print("hidden  tokens  tensor  micro-batch  pipeline  data  records   layer: measured predicted"
          "   rest: measured predicted   off at most")
    for key, n, found, said, off in profiles(json.loads(judged.stdout)["records"], plans):
        hidden, tokens, tensor, micro, pipeline, data = key
        print(f"{hidden:6} {tokens:7} {tensor:7} {micro:12} {pipeline:9} {data:5} {n:8} {pipeline * found[0]:17.3f}"
              f" {pipeline * said[0]:9.3f} {found[1]:16.2f} {said[1]:9.2f} {100 * off:11.3f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
