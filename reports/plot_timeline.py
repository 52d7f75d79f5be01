#!/usr/bin/env python3
"""Draws saved timelines (tandem simulate/train --timeline) as a PNG: one row per rank and stream, time to the right.

    plot_timeline.py SIMULATED.json [EXECUTED.json] -o OUT.png [--lanes 16]

Two files are drawn one above the other on one time axis.
"""
import argparse

from plotting import add_header, load, number_at_least_one, plan_title, plt
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

STREAMS = ["compute", "tensor", "data", "send", "recv"]
COLOURS = {
    "forward": "#4C78A8",
    "recompute": "#B79A20",
    "backward": "#54A24B",
    "reduce": "#B279A2",
    "optimizer": "#E45756",
    "weight": "#88D27A",
    "gather": "#B279A2",
    "tensor": "#F58518",
    "data": "#9D5FC2",
    "send": "#72B7B2",
    "recv": "#3D8D87",
    "waiting": "#DDDDDD",
}


def chosen_lanes(timeline, limit):
    """All lanes, or evenly picked ones with the first and the last among them."""
    lanes = sorted(timeline["lanes"], key=lambda lane: (lane["coords"]["pp"], lane["ranks"][0]))
    if len(lanes) <= limit:
        return lanes
    if limit == 1:
        return lanes[:1]
    return [lanes[round(i * (len(lanes) - 1) / (limit - 1))] for i in range(limit)]


def colour_of(task, phase):
    return phase if task["stream"] == "compute" else task["stream"]


def boxes_of(timeline, lanes, scale):
    """{colour name: rectangles}, and the label of every row. A row is one stream of one lane that does anything."""
    boxes, rows = {}, []
    column = {name: i for i, name in enumerate(timeline["span_columns"])}
    for lane in lanes:
        used = {timeline["tasks"][span[column["task"]]]["stream"] for span in lane["spans"]}
        streams = [stream for stream in STREAMS if stream in used]
        row_of = {stream: len(rows) + i for i, stream in enumerate(streams)}
        rows += [(lane, stream) for stream in streams]
        for span in lane["spans"]:
            task = timeline["tasks"][span[column["task"]]]
            y = row_of[task["stream"]]
            ready, started, ended = (span[column[c]] * scale for c in ("ready_ps", "started_ps", "ended_ps"))
            name = colour_of(task, timeline["phases"][span[column["phase"]]])
            if task["stream"] != "compute" and started > ready:
                boxes.setdefault("waiting", []).append(rectangle(ready, started, y))
            boxes.setdefault(name, []).append(rectangle(started, ended, y))
    return boxes, rows


def rectangle(left, right, y):
    return [(left, y - 0.4), (right, y - 0.4), (right, y + 0.4), (left, y + 0.4)]


def row_label(lane, stream):
    coords = lane["coords"]
    first = stream == "compute"
    rank = f"rank {lane['ranks'][0]}" + (f" (of {len(lane['ranks'])})" if len(lane["ranks"]) > 1 else "")
    place = f"pp{coords['pp']} dp{coords['dp']} tp{coords['tp']}"
    return f"{rank}, {place}  {stream}" if first else stream


def unit_of(seconds):
    for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return name, 1e-12 / size
    return "ns", 1e-3


def draw(axis, timeline, lanes, unit):
    name, scale = unit
    boxes, rows = boxes_of(timeline, lanes, scale)
    for colour, rectangles in boxes.items():
        axis.add_collection(PolyCollection(rectangles, facecolors=COLOURS[colour], edgecolors="none"))
    height = len(rows)
    axis.set_ylim(height - 0.3, -0.7)
    axis.set_yticks(range(height))
    axis.set_yticklabels([row_label(*row) for row in rows], fontsize=7, family="monospace")
    for y, (_, stream) in enumerate(rows):
        if stream == "compute" and y:
            axis.axhline(y - 0.5, color="#999999", linewidth=0.6)
    axis.axvline(timeline["step_time_ps"] * scale, color="black", linewidth=0.8, linestyle=":")
    shown = f", {len(lanes)} of {len(timeline['lanes'])} lanes" if len(lanes) < len(timeline["lanes"]) else ""
    step = timeline["step_time_ps"] * scale
    axis.set_title(f"{timeline['performer']}: step {step:.3g} {name}{shown}", fontsize=9, loc="left")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return set(boxes), len(rows)


def figure(timelines, limit):
    unit = unit_of(max(t["step_time_ps"] for t in timelines) * 1e-12)
    picked = [chosen_lanes(t, limit) for t in timelines]
    heights = [max(1, len(lanes)) for lanes in picked]
    fig, axes = plt.subplots(len(timelines), 1, sharex=True, squeeze=False,
                             figsize=(14, 1.6 + 0.75 * sum(heights)), gridspec_kw={"height_ratios": heights})
    used = set()
    for axis, timeline, lanes in zip(axes[:, 0], timelines, picked):
        used |= draw(axis, timeline, lanes, unit)[0]
    axes[-1, 0].set_xlim(0, max(t["step_time_ps"] for t in timelines) * unit[1] * 1.01)
    axes[-1, 0].set_xlabel(f"time since the step began ({unit[0]})")
    labels = {"tensor": "tensor-, context- or expert-parallel comm", "data": "data-parallel comm", "weight": "weight gradient"}
    shown = [c for c in COLOURS if c in used]
    add_header(fig, plan_title(timelines[0]), [Patch(color=COLOURS[c]) for c in shown], [labels.get(c, c) for c in shown])
    return fig


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timelines", nargs="+", help="one or two saved timelines")
    parser.add_argument("-o", "--output", required=True, help="PNG to write")
    parser.add_argument("--lanes", type=number_at_least_one, default=16, help="ranks (or roles) drawn at most, per timeline")
    arguments = parser.parse_args()
    figure([load(path, "tandem timeline") for path in arguments.timelines], arguments.lanes).savefig(arguments.output, dpi=130)
    print(arguments.output)


if __name__ == "__main__":
    main()
