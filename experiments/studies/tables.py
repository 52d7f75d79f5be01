#!/usr/bin/env python3
"""Sweeps the ready-made studies and writes their results into their READMEs.

    tables.py TANDEM [--out DIR] [NAME ...]

A README requests tables by pairs of marks, which stay:

    <!-- plans: AXIS, AXIS -->    the best plan for each combination of these axes
    <!-- published -->            published figures beside predictions
    <!-- end -->
"""
import argparse
import itertools
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BLOCK = re.compile(r"(<!-- (plans: [^>]*?|published) -->\n).*?(<!-- end -->)", re.DOTALL)


def seconds(value):
    for unit, name in ((1, "s"), (1e-3, "ms")):
        if value >= unit:
            return f"{value / unit:.3g} {name}" if value / unit < 1000 else f"{value / unit:,.0f} {name}"
    return f"{value * 1e6:.3g} us"


def figure_text(key, value):
    if key == "step_time_s":
        return seconds(value)
    if key == "peak_memory_bytes":
        return f"{value / 2**30:.1f} GiB"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


FIGURES = {"step_time_s": "step time", "tokens_per_s": "tokens/s", "samples_per_s": "samples/s", "peak_memory_bytes": "memory",
           "hardware_tflops_per_device": "hardware TFLOP/s", "model_tflops_per_device": "model TFLOP/s"}


def words(name):
    return re.sub(r"^(parallel|training|cluster|model)\.", "", name).replace("_", " ")


def table(head, rows):
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in [head, ["---"] * len(head), *rows])


def labels(axis):
    return [value if "field" in axis else value["label"] for value in axis["values"]]


def plans(study, rows, axes):
    """One line per combination: its best plan, or why there is none."""
    named = {axis.get("field") or axis.get("name"): labels(axis) for axis in study["axes"]}
    unknown = [axis for axis in axes if axis not in named]
    if unknown:
        sys.exit(f"{study['name']}: no axis {unknown[0]}; there are {', '.join(named)}")
    free = [axis for axis in named if axis not in axes and len(named[axis]) > 1]
    lines = []
    for at in itertools.product(*(named[axis] for axis in axes)):
        here = [row for row in rows if all(row["at"][axis] == label for axis, label in zip(axes, at))]
        solved = [row for row in here if "step_time_s" in row]
        if not solved:
            lines.append([*at, *["-"] * len(free), "-", "-", "-", here[0]["status"] if here else "-"])
            continue
        best = max(solved, key=lambda r: (r["status"] == "ok", r["model_tflops_per_device"]))
        lines.append([*at, *(best["at"][axis] for axis in free), seconds(best["step_time_s"]), f"{best['model_tflops_per_device']:.1f}",
                      f"{best['peak_memory_bytes'] / 2**30:.1f} of {best['device_memory_bytes'] / 2**30:.0f} GiB",
                      "fits" if best["status"] == "ok" else best["status"]])
    return table([*map(words, axes), *map(words, free), "step time", "model TFLOP/s per device", "memory", ""], lines)


def published(study, rows):
    lines = []
    for point in study.get("points", []):
        row = next(row for row in rows if row["at"] == point["at"])
        for key, value in point.items():
            if key == "fits":
                lines.append([point["name"], "fits", "yes" if value else "no", "yes" if row.get("fits") else "no", ""])
            elif isinstance(value, (int, float)):
                predicted = row.get(key)
                lines.append([point["name"], FIGURES.get(key, words(key)), figure_text(key, value), figure_text(key, predicted) if predicted else row["status"],
                              f"{100 * (predicted / value - 1):+.1f} %" if predicted else ""])
    return table(["run", "figure", "published", "predicted", "error"], lines)


def refresh(folder, results):
    study = json.loads((results / "study.json").read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in (results / "results.jsonl").read_text(encoding="utf-8").splitlines()]

    def block(match):
        wanted = match.group(2)
        text = published(study, rows) if wanted == "published" else plans(study, rows, [a.strip() for a in wanted.split(":", 1)[1].split(",")])
        return match.group(1) + text + match.group(3)

    readme = folder / "README.md"
    readme.write_text(BLOCK.sub(block, readme.read_text(encoding="utf-8")), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", help="the program, e.g. build/tandem")
    parser.add_argument("names", nargs="*", help="studies [all]")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/studies"), help="folder for results [out/studies]")
    arguments = parser.parse_args()
    for path in sorted(HERE.glob("*/study.json")):
        name = path.parent.name
        if arguments.names and name not in arguments.names:
            continue
        results = arguments.out / name
        subprocess.run([arguments.tandem, "sweep", str(path), "--out", str(results)], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([arguments.tandem, "report", str(results)], check=True, stdout=subprocess.DEVNULL)
        refresh(path.parent, results)
        print(path.parent / "README.md")


if __name__ == "__main__":
    main()
