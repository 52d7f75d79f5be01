#!/usr/bin/env python3
"""Draws memory over time (tandem simulate --memory) as a PNG: one stacked panel per role.

    plot_memory.py MEMORY.json -o OUT.png [--roles 4]
"""
import argparse
import sys

from plotting import add_header, load, number_at_least_one, plan_title, plt

COLOURS = {
    "weights": "#4C78A8",
    "gradients": "#54A24B",
    "optimizer": "#E45756",
    "activations": "#F58518",
    "communication": "#9D5FC2",
    "workspace": "#B79A20",
    "runtime": "#BBBBBB",
}
SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def peak(role):
    return max(sum(sample[1:]) for sample in role["samples"])


def chosen_roles(memory, limit):
    """The heaviest role of every stage, the heaviest `limit` of them, in order of stage."""
    heaviest = {}
    for role in memory["roles"]:
        stage = role["coords"]["pp"]
        if stage not in heaviest or peak(role) > peak(heaviest[stage]):
            heaviest[stage] = role
    kept = sorted(heaviest.values(), key=peak, reverse=True)[:limit]
    return sorted(kept, key=lambda role: role["coords"]["pp"])


def steps(samples, column, end):
    """The column as a staircase: each value holds until the next sample."""
    times = [sample[0] for sample in samples] + [end]
    values = [sample[column] for sample in samples]
    return times, values + values[-1:]


def draw(axis, memory, role, unit):
    kinds = memory["columns"][1:]
    used = [i for i, _ in enumerate(kinds) if any(sample[i + 1] for sample in role["samples"])]
    stacks = [steps(role["samples"], i + 1, memory["step_time_s"]) for i in used]
    axis.stackplot(stacks[0][0], [[v / unit[0] for v in values] for _, values in stacks], step="post",
                   colors=[COLOURS[kinds[i]] for i in used], labels=[kinds[i] for i in used], linewidth=0)
    axis.axhline(peak(role) / unit[0], color="black", linewidth=0.7, linestyle=":")
    ranks = f"rank {role['ranks'][0]}" + (f", one of {len(role['ranks'])} alike" if len(role["ranks"]) > 1 else "")
    axis.set_title(f"stage {role['coords']['pp']} ({ranks}), up to {peak(role) / unit[0]:.3g} {unit[1]}",
                   fontsize=9, loc="left")
    axis.set_ylabel(unit[1])
    axis.set_ylim(bottom=0)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def figure(memory, limit):
    roles = chosen_roles(memory, limit)
    highest = max(peak(role) for role in roles)
    unit = next(size for size in SIZES if highest >= size[0] or size[0] == 1)
    fig, axes = plt.subplots(len(roles), 1, sharex=True, sharey=True, squeeze=False, figsize=(11, 1.5 + 2.1 * len(roles)))
    entries = {}
    for axis, role in zip(axes[:, 0], roles):
        draw(axis, memory, role, unit)
        handles, labels = axis.get_legend_handles_labels()
        entries.update(zip(labels, handles))
    axes[-1, 0].set_xlabel("time since the step began (s)")
    axes[-1, 0].set_xlim(0, memory["step_time_s"])
    left_out = len(memory["roles"]) - len(roles)
    heaviest = f"; the heaviest {len(roles)} of {len(memory['roles'])} roles, dotted: peak" if left_out else "; dotted: peak"
    add_header(fig, plan_title(memory) + heaviest, list(entries.values()), list(entries))
    return fig


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memory", help="what `tandem simulate --memory` wrote")
    parser.add_argument("-o", "--output", required=True, help="PNG to write")
    parser.add_argument("--roles", type=number_at_least_one, default=4, help="panels at most")
    arguments = parser.parse_args()
    memory = load(arguments.memory, "tandem memory")
    if not memory["roles"]:
        sys.exit(f"plot_memory: {arguments.memory}: holds no samples")
    figure(memory, arguments.roles).savefig(arguments.output, dpi=130)
    print(arguments.output)


if __name__ == "__main__":
    main()
