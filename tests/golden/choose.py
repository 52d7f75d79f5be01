#!/usr/bin/env python3
"""Chooses records of measurement files and copies their plans into plans/, with the date and framework of the record beside them.

    tests/golden/choose.py COUNT FILE.jsonl... PLAN.json...

Every combination of file, stack or framework, cluster, model family and precision gives one record, then the largest give more.
Of a combination, the record comes first whose plan has most settings that no chosen plan has. Equal ones go by a hash of the id. Plan files are copied as well, all of them.
"""
import collections
import hashlib
import json
import pathlib
import re
import sys

import golden

SIZES = {"training.global_batch_size", "training.seq_length", "cluster.devices"}


def records(paths):
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            if line.strip():
                yield pathlib.Path(path).stem, json.loads(line)


def combination(place, record):
    plan = record["plan"]
    stack = record.get("framework", json.dumps(plan.get("stack"), sort_keys=True))
    return place, stack, plan["cluster"].get("preset", ""), plan["model"].get("family", ""), plan["training"].get("precision", "")


def settings(record):
    """What a plan sets besides its sizes, and the year of its framework."""
    plan = record["plan"]
    parts = {part: plan.get(part, {}) for part in ("parallel", "training", "cluster")}
    pairs = {pair for pair in golden.leaves({"plan": parts}) if pair[0].removeprefix("plan.") not in SIZES}
    return {*pairs, ("experts", "moe" in plan["model"]), ("year", record.get("as_of", "")[:4])}


def chosen(groups, count):
    """Round after round, the largest combination first."""
    out, seen = [], set()
    order = sorted(groups, key=lambda g: (-len(groups[g]), g))
    while len(out) < count and any(groups.values()):
        for group in (g for g in order if groups[g]):
            best = max(groups[group], key=lambda r: (len(settings(r) - seen), hashlib.sha256(r["id"].encode()).hexdigest()))
            groups[group].remove(best)
            seen |= settings(best)
            out.append(best)
    return out[:count]


def keep(name, record):
    kept = {key: record.get(key) for key in ("id", "as_of", "framework", "plan")}
    (golden.PLANS / f"{re.sub(r'[^A-Za-z0-9_.+-]', '_', name)}.json").write_text(golden.compact(kept))


def main(count, *paths):
    groups = collections.defaultdict(list)
    for place, record in records(path for path in paths if path.endswith(".jsonl")):
        groups[combination(place, record)].append(record)
    for record in chosen(groups, int(count)):
        keep(record["id"], record)
    for path in map(pathlib.Path, paths):
        if path.suffix == ".json":
            keep(path.stem, {"id": path.stem, "plan": json.loads(path.read_text())})


if __name__ == "__main__":
    main(*sys.argv[1:])
