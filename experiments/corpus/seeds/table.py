#!/usr/bin/env python3
"""Simulates every plan of experiments/plans/seeds and prints the results as a Markdown table.

    experiments/corpus/seeds/table.py build/tandem [--jobs 2] [PLAN ...]

Memory is of the heaviest device. A plan that its stack refuses, or that this version cannot do, shows the reason.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
PLANS = FOLDER.parents[1] / "plans" / "seeds"
COLUMNS = ["plan", "stack", "devices", "step time", "memory per device", "fits", "published"]


def simulate(tandem, path):
    """Returns (the result or None, the messages)."""
    done = subprocess.run([tandem, "simulate", "--json", str(path)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        sys.exit(f"{path.name}: exit {done.returncode}\n{done.stderr}")
    return (json.loads(done.stdout) if done.stdout.strip() else None), done.stderr


def reasons(messages):
    """The part of each message after file and field. `not implemented` repeats the field's value."""
    found = [re.sub(r"^.*?\.json: ", "", line) for line in messages.splitlines() if line.startswith("tandem: error: ")]
    missing = [m.group(1) for line in found if (m := re.search(r"not implemented: ([^;]*)", line))]
    refused = [line for line in found if "not implemented" not in line]
    return "; ".join((["not implemented: " + ", ".join(missing)] if missing else []) + refused)


def seconds(value):
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def efficiency(tandem, plan, scaling):
    """Predicted throughput per device on `to` devices over that on `from`, with as many sequences per device."""
    def per_step(devices):
        each = plan["training"]["global_batch_size"] // plan["cluster"]["devices"]
        grown = plan | {"parallel": plan["parallel"] | {"data": devices},
                        "training": plan["training"] | {"global_batch_size": each * devices},
                        "cluster": {"preset": scaling["cluster"], "devices": devices}}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(grown, file)
            file.flush()
            return simulate(tandem, pathlib.Path(file.name))[0]["step_time_s"]
    return per_step(scaling["from"]) / per_step(scaling["to"])


def published(figure, efficient=None):
    """"32 s, 138 TFLOP/s hardware", with "at most" if the source only gives a bound. `efficient`: the predicted efficiency."""
    parts = []
    if figure.get("step_time_s") is not None:
        parts.append(("at most " if figure.get("upper_bound") else "") + seconds(figure["step_time_s"]))
    if figure.get("tflops_per_device") is not None:
        parts.append(f"{figure['tflops_per_device']} TFLOP/s {figure['tflops_kind']}")
    if efficient is not None:
        scaling = figure["scaling"]
        parts.append(f"{100 * scaling['efficiency']:.1f} % efficiency from {scaling['from']} to {scaling['to']} on {scaling['cluster']} "
                     f"(predicted {100 * efficient:.1f} %)")
    return ", ".join(parts) or "none"


def row(path, plan, outcome, figure, efficient):
    result, messages = outcome
    start = [f"[{path.stem}](../../plans/seeds/{path.name})", plan["stack"], f"{plan['cluster']['devices']:,}"]
    if result is None:
        return start + [reasons(messages), "", "", published(figure, efficient)]
    return start + [seconds(result["step_time_s"]), f"{result['peak_memory_bytes'] / 2**30:.1f} GiB",
                    "yes" if result["fits"] else "no", published(figure, efficient)]


def line(cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", help="the program")
    parser.add_argument("plans", nargs="*", type=pathlib.Path, help="plans; default: all of experiments/plans/seeds")
    parser.add_argument("--jobs", type=int, default=1, help="simulations at a time")
    options = parser.parse_args()
    figures = json.loads((FOLDER / "published.json").read_text(encoding="utf-8"))
    paths = options.plans or sorted(PLANS.glob("*.json"))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda p: simulate(options.tandem, p), paths))
    print(line(COLUMNS))
    print("|" + "---|" * len(COLUMNS))
    for path, outcome in zip(paths, outcomes):
        plan = json.loads(path.read_text(encoding="utf-8"))
        figure = figures.get(path.stem, {})
        efficient = efficiency(options.tandem, plan, figure["scaling"]) if "scaling" in figure else None
        print(line(row(path, plan, outcome, figure, efficient)))


if __name__ == "__main__":
    main()
