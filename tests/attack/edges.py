#!/usr/bin/env python3
"""Simulates plans with each integer field that may be 0 at 0 and at 1, over families and kinds of layers.

    edges.py [--all] [--jobs J]

--all takes all model presets, one more layout, all integer fields at their least value and one more, and the commands explain and plan.
TANDEM is the program [build/tandem]. It must end with 0, 3 or 4; a step must take time, and its model FLOPs at most the peak.
"""
import argparse
import concurrent.futures
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import material

SIZES = {"num_layers": 4, "hidden_size": 128, "num_attention_heads": 4, "vocab_size": 512}
EXPERTS = {"num_experts": 8, "experts_per_token": 2, "ffn_hidden_size": 64}
MODELS = {
    **{family: {"family": family} for family in ("gpt", "llama", "bloom", "bert", "t5")},
    "experts": {"family": "llama", "moe": {**EXPERTS, "num_shared_experts": 1, "first_dense_layers": 1, "expert_groups": 4, "groups_per_token": 2,
                                           "shared_gate": True}},
    "latent": {"family": "llama", "latent": {"kv_rank": 32, "query_rank": 48, "rotary_dim": 16}, "moe": EXPERTS, "mtp": {"num_layers": 1},
               "indexer": {"heads": 4, "head_dim": 32, "topk": 32}},
    "blocks": {"family": "llama", "indexer": {"heads": 4, "head_dim": 32, "topk": 32, "block_size": 16}},
    "window": {"family": "llama", "window": {"size": 32, "layers": "wf", "num_kv_heads": 2, "head_dim": 16}},
    "recurrence": {"family": "llama", "recurrence": {"heads": 8, "key_heads": 4, "key_dim": 16, "value_dim": 16, "layers": "ra"},
                   "attention_gate": True},
}
LAYOUTS = {"data": {"data": 8, "zero_stage": 3}, "pipeline": {"tensor": 2, "pipeline": 2, "data": 2, "zero_stage": 1}}
COMMANDS = {"simulate": ["--json", "--allow-oversize"], "explain": [], "plan": ["--tokens", "1e9", "--json"]}


def integers(schema, path=()):
    """Dotted path and least value of every field that may be an integer."""
    for name, field in schema.get("properties", {}).items():
        kinds = field.get("type", [])
        if "integer" in ([kinds] if isinstance(kinds, str) else kinds):
            yield (*path, name), field["minimum"]
        yield from integers(field, (*path, name))


def plans(layouts, presets):
    for layout in layouts:
        parallel = LAYOUTS[layout]
        training = {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 16}
        rest = {"parallel": parallel, "training": training, "cluster": {"preset": "dgx-h100", "devices": 8}}
        for name, model in MODELS.items():
            yield f"{name}, {layout}", {"model": {**SIZES, **model}, **rest}
        for name in presets:
            yield f"{name}, {layout}", {"model": {"preset": name}, **rest}


def at(plan, path, value):
    plan = copy.deepcopy(plan)
    place = plan
    for part in path[:-1]:
        place = place.setdefault(part, {})
    place[path[-1]] = value
    return plan


def problem(command, plan, folder):
    """What is wrong with the answer, or an empty text."""
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        try:
            done = subprocess.run([material.PROGRAM, command, file.name, *COMMANDS[command]], env=material.environment(folder), cwd=folder,
                                  capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            return "took over 120 s"
    if done.returncode not in (0, 3, 4):
        return f"exit {done.returncode}: {done.stderr[-500:]}"
    if command == "simulate" and done.returncode == 0:
        answer = json.loads(done.stdout)
        if not (answer["step_time_s"] > 0 and 0 < answer["mfu"] <= 1):
            return f"{answer['step_time_s']} s, {answer['mfu']} of the peak"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="takes an hour")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    schema = json.loads(subprocess.run([material.PROGRAM, "schema"], capture_output=True, check=True).stdout)
    presets = sorted(p.stem for p in (material.SOURCE / "models" / "presets").glob("*.json")) if options.all else []
    layouts, commands = (LAYOUTS, COMMANDS) if options.all else (["pipeline"], ["simulate"])
    fields = [(path, least) for path, least in integers(schema) if options.all or least == 0]
    with tempfile.TemporaryDirectory(prefix="tandem_edges_") as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {f"{command}: {name}, {'.'.join(path)} {value}": pool.submit(problem, command, at(plan, path, value), pathlib.Path(folder))
                for name, plan in plans(layouts, presets) for path, least in fields for value in (least, least + 1) for command in commands}
        wrong = {key: found for key, run in runs.items() if (found := run.result())}
    for key, found in wrong.items():
        print(f"{key}\n  {found}")
    print(f"{len(runs)} runs, {len(wrong)} failed")
    sys.exit(1 if wrong or not runs else 0)


if __name__ == "__main__":
    main()
