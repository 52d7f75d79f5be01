#!/usr/bin/env python3
"""How much memory a process takes while it saves, beyond its arena and what it takes anyway.

    experiments/bench/save_memory.py build/tandem [--models gpt2-124m,gpt2-345m,gpt-1.3b] [--folder FOLDER]

Trains each model for two steps of 1 x 32 tokens and saves after each. Prints the arena, the peak of resident memory, what that is beyond the
arena, and the bar: 256 MB and two largest tensors. The exit code is 1 where a peak is above it. 1.3B needs 20 GB of memory, since
its gradients are kept in bf16, and 35 GB in FOLDER.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ALLOWED = 256e6


def plan(model):
    training = {"seq_length": 32, "micro_batch_size": 1, "global_batch_size": 1, "precision": "fp32"}
    if model == "gpt-1.3b":
        training["dtypes"] = {"gradients": "bf16"}
    return {"model": {"preset": model}, "training": training, "cluster": {"preset": "cpu-host", "devices": 1}}


def largest_tensor(folder):
    """Bytes of the largest tensor in the checkpoint's files."""
    most = 0
    for root, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".safetensors"):
                continue
            with open(os.path.join(root, name), "rb") as file:
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            for key, entry in header.items():
                if key != "__metadata__":
                    most = max(most, entry["data_offsets"][1] - entry["data_offsets"][0])
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("--models", default="gpt2-124m,gpt2-345m,gpt-1.3b")
    parser.add_argument("--folder", default=None, help="where checkpoints go for the moment; default: that of temporary files")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--data", default=os.path.join(here, "..", "data", "kjv-new-testament.txt"))
    o = parser.parse_args()
    failed = False
    for model in o.models.split(","):
        with tempfile.TemporaryDirectory(dir=o.folder) as folder:
            path, saved = os.path.join(folder, "plan.json"), os.path.join(folder, "checkpoints")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(plan(model), file)
            answer = subprocess.run([o.tandem, "simulate", path, "--json"], capture_output=True, text=True, check=False)
            arena = max(role["arena_bytes"] for role in json.loads(answer.stdout)["roles"])
            command = [o.tandem, "train", path, "--data", o.data, "--steps", "2", "--save", saved, "--save-every", "1", "--keep", "1"]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
                message = run.stderr.read()
                _, status, usage = os.wait4(run.pid, 0)
                run.returncode = status
            if status != 0:
                sys.exit(f"{' '.join(command)}: status {status}\n{message}")
            peak, tensor = usage.ru_maxrss * 1024, largest_tensor(saved)
        bar = ALLOWED + 2 * tensor
        held = peak - arena <= bar
        failed = failed or not held
        print(f"{model}: arena {arena / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB, {(peak - arena) / 1e6:+.0f} MB "
              f"(bar {bar / 1e6:.0f} MB: 256 MB and two tensors of {tensor / 1e6:.0f} MB){'' if held else ', ABOVE'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
