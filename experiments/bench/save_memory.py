#!/usr/bin/env python3
"""Measures a process' memory while it saves, beyond its arena and beyond the same run without saves.

    experiments/bench/save_memory.py build/tandem [--models gpt2-124m,gpt2-345m,gpt-1.3b] [--folder FOLDER]

Trains each model for two steps of 1 x 32 tokens, without saves and with one after each. Prints the arena, the peak of resident memory with
saves, and what that is beyond both. The exit code is 1 where it is more than 256 MB and two largest tensors beyond the arena. 1.3B needs 20 GB
of memory, since its gradients are kept in bf16, and 35 GB in FOLDER.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from gpt2_runs import TEXT, plan, written

ALLOWED = 256e6
TABLES = {"gpt2-124m": 50304 * 768, "gpt2-345m": 50304 * 1024, "gpt-1.3b": 50304 * 2048}  # elements of the largest tensor, in fp32


def plan_of(model):
    contents = plan(1, 32, preset=model)
    if model == "gpt-1.3b":
        contents["training"]["dtypes"] = {"gradients": "bf16"}
    return contents


def peak(command):
    """Returns the peak resident bytes of the run."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        message = run.stderr.read()
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = status
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}\n{message}")
    return usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("--models", default=",".join(TABLES))
    parser.add_argument("--folder", default=None, help="where checkpoints go for the moment; default: that of temporary files")
    parser.add_argument("--data", default=TEXT)
    o = parser.parse_args()
    failed = False
    for model in o.models.split(","):
        with tempfile.TemporaryDirectory(dir=o.folder) as folder, written(plan_of(model)) as path:
            answer = subprocess.run([o.tandem, "simulate", path, "--json"], capture_output=True, text=True, check=False)
            arena = max(role["arena_bytes"] for role in json.loads(answer.stdout)["roles"])
            command = [o.tandem, "train", path, "--data", o.data, "--steps", "2"]
            without = peak(command)
            saving = peak(command + ["--save", os.path.join(folder, "checkpoints"), "--save-every", "1", "--keep", "1"])
        bar = ALLOWED + 2 * 4 * TABLES[model]
        failed = failed or saving - arena > bar
        print(f"{model}: arena {arena / 1e6:.0f} MB, peak {saving / 1e6:.0f} MB, {(saving - arena) / 1e6:.0f} MB beyond the arena "
              f"(bar {bar / 1e6:.0f} MB{', ABOVE' if saving - arena > bar else ''}) and {(saving - without) / 1e6:+.0f} MB beyond the run "
              "without saves", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
