#!/usr/bin/env python3
"""Draws figures fit for a paper from the results of `tandem sweep`: PDF and PNG of each.

    figures.py STUDY_DIR --out DIR [--x AXIS] [--series AXIS] [--y FIGURE] [--width INCHES]

curves      the figure over an axis, a line for each value of another; vertical lines hold 80 % of outcomes, crosses are published
map         the figure over two axes, where the study has two or more
breakdown   where the step time goes, over the axis
agreement   predicted over published step times, with their 80 % ranges, where there are three or more
Where the study's view names values of axes, only those are drawn. Over axes that a figure does not show, the plan that uses its devices best is taken, one that fits before one that does not.
"""
import argparse
import json
import pathlib
import sys

from plotting import plt

COLOURS = ["#4C78A8", "#F58518", "#54A24B", "#B279A2", "#E45756", "#72B7B2", "#B79A20", "#9D755D", "#8B8FA3", "#D977B8"]
FIGURES = {  # key: (label, factor)
    "step_time_s": ("step time (s)", 1), "tokens_per_s": ("tokens per second", 1), "samples_per_s": ("samples per second", 1),
    "model_tflops_per_device": ("model TFLOP/s per device", 1), "hardware_tflops_per_device": ("hardware TFLOP/s per device", 1),
    "mfu": ("model FLOP utilisation (%)", 100), "hfu": ("hardware FLOP utilisation (%)", 100),
    "bubble_fraction": ("pipeline bubble (%)", 100), "needed_bytes": ("memory per device (GiB)", 2**-30),
}
GROWING, FALLING = {"step_time_s"}, {"tokens_per_s", "samples_per_s", "model_tflops_per_device", "hardware_tflops_per_device", "mfu", "hfu"}
STYLE = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6, "legend.frameon": False,
         "xtick.major.width": 0.6, "ytick.major.width": 0.6, "pdf.fonttype": 42, "savefig.bbox": "tight", "savefig.dpi": 300}


class Study:
    """A folder of results: its axes, rows and published points."""

    def __init__(self, folder):
        try:
            document = json.loads((folder / "study.json").read_text(encoding="utf-8"))
            lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
            self.axes = {axis_name(a): [axis_label(a, v) for v in a["values"]] for a in document["axes"]}
            self.rows = [row for row in map(json.loads, lines) if self.has(row["at"])]
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"{sys.argv[0]}: {folder}: no results of tandem sweep: {error}")
        self.view = document.get("view", {})
        only = self.view.get("at", {})
        self.points = [p for p in document.get("points", []) if only.items() <= p["at"].items()]
        self.solved = [row for row in self.rows if row["status"] in ("ok", "too large") and only.items() <= row["at"].items()]
        if not self.solved:
            sys.exit(f"{sys.argv[0]}: {folder}: no plan of this study was predicted")

    def has(self, at):
        """Whether the study has this point; the folder keeps rows of others."""
        return at.keys() == self.axes.keys() and all(label in self.axes[name] for name, label in at.items())

    def best(self, **at):
        """The best row at these labels of axes, or None."""
        rows = [row for row in self.solved if at.items() <= row["at"].items()]
        return max(rows, key=lambda r: (r["status"] == "ok", r["model_tflops_per_device"]), default=None)

    def published(self, figure, at):
        return [p[figure] for p in self.points if figure in p and at.items() <= p["at"].items()]


def axis_name(axis):
    return axis.get("field") or axis["name"]


def axis_label(axis, value):
    if "field" not in axis:
        return value["label"]
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (dict, list)) else value


def span(row, figure):
    """The ends of the figure's 80 % range, or None: rates fall as the step time grows."""
    low, high = row.get("step_time_low_s"), row.get("step_time_high_s")
    if low is None or high is None or figure not in GROWING | FALLING:
        return None
    low, high = low / row["step_time_s"], high / row["step_time_s"]
    return (row[figure] * low, row[figure] * high) if figure in GROWING else (row[figure] / high, row[figure] / low)


def words(name):
    if name == "cluster.preset":
        return "cluster"
    for part in ("parallel.", "training.", "cluster.", "model."):
        name = name.removeprefix(part)
    return name.replace("_", " ")


def ticks(axis, labels):
    axis.set_xticks(range(len(labels)))
    long = max(len(str(label)) for label in labels) * len(labels) > 60
    axis.set_xticklabels([str(label) for label in labels], rotation=35 if long else 0, ha="right" if long else "center")


def curves(study, chosen, width):
    figure, axis = plt.subplots(figsize=(width, width * 0.62))
    label, factor = FIGURES[chosen.y]
    names = study.axes[chosen.series] if chosen.series else [None]
    for i, name in enumerate(names):
        spots = []
        for x, value in enumerate(study.axes[chosen.x]):
            at = {chosen.x: value, **({chosen.series: name} if chosen.series else {})}
            row = study.best(**at)
            if row is not None:
                spots.append((x, row[chosen.y] * factor, row["status"] == "ok"))
                ends = span(row, chosen.y)
                if ends is not None:
                    axis.plot([x, x], [end * factor for end in ends], "-", color=COLOURS[i % len(COLOURS)], linewidth=0.8)
            for published in study.published(chosen.y, at):
                axis.plot(x, published * factor, "x", color=COLOURS[i % len(COLOURS)] if chosen.series else "black", markersize=5, zorder=4)
        colour = COLOURS[i % len(COLOURS)]
        axis.plot([s[0] for s in spots], [s[1] for s in spots], "-", color=colour, linewidth=1.2, label="predicted" if name is None else str(name))
        for x, y, fits in spots:
            axis.plot(x, y, "o", markersize=3.6, markerfacecolor=colour if fits else "white", markeredgecolor=colour)
    ticks(axis, study.axes[chosen.x])
    axis.set_xlabel(words(chosen.x))
    axis.set_ylabel(label)
    values = [y for line in axis.get_lines() for y in line.get_ydata() if y > 0]
    if max(values) / min(values) > 30:
        axis.set_yscale("log")
    else:
        axis.set_ylim(0, 1.06 * max(values))
    if any(span(row, chosen.y) for row in study.solved):
        axis.plot([], [], "-", color="black", linewidth=0.8, label="80 % range")
    if any(chosen.y in p for p in study.points):
        axis.plot([], [], "x", color="black", markersize=5, label="published")
    if any(row["status"] != "ok" for row in study.solved):
        axis.plot([], [], "o", markersize=3.6, markerfacecolor="white", markeredgecolor="black", label="does not fit")
    if len(axis.get_legend_handles_labels()[1]) > 1:
        axis.legend(title=words(chosen.series) if chosen.series else None, fontsize=7, title_fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure


def heat_map(study, chosen, width):
    wide = [name for name, labels in study.axes.items() if len(labels) > 1]
    if len(wide) < 2:
        return None
    columns = chosen.x if chosen.x in wide else wide[1]
    rows = chosen.series if chosen.series in wide and chosen.series != columns else next(n for n in wide if n != columns)
    label, factor = FIGURES[chosen.y]
    grid = [[study.best(**{rows: r, columns: c}) for c in study.axes[columns]] for r in study.axes[rows]]
    values = [[float("nan") if cell is None else cell[chosen.y] * factor for cell in line] for line in grid]
    figure, axis = plt.subplots(figsize=(width, 0.6 + 0.32 * len(grid) + 0.25))
    image = axis.imshow(values, aspect="auto", cmap="Blues")
    middle = (image.norm.vmin + image.norm.vmax) / 2
    for j, line in enumerate(grid):
        for i, cell in enumerate(line):
            if cell is None:
                axis.text(i, j, "–", ha="center", va="center", color="#888888")
                continue
            axis.text(i, j, f"{values[j][i]:.3g}", ha="center", va="center", fontsize=6.5, color="white" if values[j][i] > middle else "black",
                      fontstyle="normal" if cell["status"] == "ok" else "italic", alpha=1 if cell["status"] == "ok" else 0.7)
    ticks(axis, study.axes[columns])
    axis.set_yticks(range(len(grid)))
    axis.set_yticklabels([str(r) for r in study.axes[rows]])
    axis.set_xlabel(words(columns))
    axis.set_ylabel(words(rows))
    axis.tick_params(length=0)
    figure.colorbar(image, ax=axis, label=label, fraction=0.04, pad=0.02)
    return figure


def breakdown(study, chosen, width):
    rows = [(label, study.best(**{chosen.x: label})) for label in study.axes[chosen.x]]
    rows = [(label, row) for label, row in rows if row is not None]
    kinds = [k for k in rows[0][1]["time_breakdown_s"] if any(row["time_breakdown_s"][k] > 0 for _, row in rows)]
    kinds.sort(key=lambda k: -sum(row["time_breakdown_s"][k] / row["step_time_s"] for _, row in rows))
    figure, axis = plt.subplots(figsize=(width, width * 0.55))
    base = [0.0] * len(rows)
    for i, kind in enumerate(kinds):
        shares = [100 * row["time_breakdown_s"][kind] / row["step_time_s"] for _, row in rows]
        axis.bar(range(len(rows)), shares, 0.7, bottom=base, color=COLOURS[i % len(COLOURS)], label=kind.replace("_", " "))
        base = [b + s for b, s in zip(base, shares)]
    ticks(axis, [label for label, _ in rows])
    axis.set_xlabel(words(chosen.x))
    axis.set_ylabel("share of the step (%)")
    axis.set_ylim(0, 100)
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)
    return figure


def agreement(study, _, width):
    judged = [(p["step_time_s"], row) for p in study.points if "step_time_s" in p for row in study.solved if row["at"] == p["at"]]
    pairs = [(published, row["step_time_s"]) for published, row in judged]
    if len(pairs) < 3:
        return None
    figure, axis = plt.subplots(figsize=(width * 0.7, width * 0.7))
    low, high = min(map(min, pairs)) / 1.25, max(map(max, pairs)) * 1.25
    axis.fill_between([low, high], [low * 0.9, high * 0.9], [low * 1.1, high * 1.1], color="#dddddd", linewidth=0, label="within 10 %")
    axis.plot([low, high], [low, high], color="#888888", linewidth=0.8)
    for published, row in judged:
        axis.plot([published] * 2, span(row, "step_time_s") or [row["step_time_s"]] * 2, "-", color=COLOURS[0], linewidth=0.8)
    axis.plot(*zip(*pairs), "o", color=COLOURS[0], markersize=4)
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), xlabel="published step time (s)", ylabel="predicted step time (s)", aspect="equal")
    axis.legend(fontsize=7)
    return figure


def runs_over(axes):
    """The axis with most numbers, else the last: a line between two clusters would mean nothing."""
    counted = [name for name, labels in axes.items() if len(labels) > 1 and all(isinstance(label, (int, float)) for label in labels)]
    return max(counted, key=lambda name: len(axes[name])) if counted else list(axes)[-1]


def choose(study, arguments):
    """Axes and figure: as asked for, as the study's view says, or the axis with most numbers and the first other one."""
    names = list(study.axes)
    arguments.x = arguments.x or study.view.get("x") or runs_over(study.axes)
    others = [n for n in names if n != arguments.x and len(study.axes[n]) > 1]
    arguments.series = arguments.series or study.view.get("series") or (others[0] if others else None)
    arguments.y = arguments.y or study.view.get("y", "step_time_s")
    for axis in (arguments.x, arguments.series):
        if axis and axis not in study.axes:
            sys.exit(f"{sys.argv[0]}: {axis}: no such axis; there are {', '.join(names)}")
    return arguments


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=pathlib.Path, help="folder that tandem sweep has written")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the figures")
    parser.add_argument("--x", help="axis to the right [the study's view, else the axis with most numbers]")
    parser.add_argument("--series", help="axis with a line for each value [the study's view, else the first other one]")
    parser.add_argument("--y", choices=FIGURES, help="what is drawn [the study's view]")
    parser.add_argument("--width", type=float, default=4.8, help="inches [4.8]")
    arguments = parser.parse_args()
    study = Study(arguments.study)
    chosen = choose(study, arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        for name, draw in (("curves", curves), ("map", heat_map), ("breakdown", breakdown), ("agreement", agreement)):
            figure = draw(study, chosen, arguments.width)
            if figure is None:
                continue
            for ending in ("pdf", "png"):
                path = arguments.out / f"{name}.{ending}"
                figure.savefig(path, metadata={"CreationDate": None} if ending == "pdf" else None)
                print(path)
            plt.close(figure)


if __name__ == "__main__":
    main()
