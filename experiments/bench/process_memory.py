#!/usr/bin/env python3
"""Compares the memory of a training's processes with the prediction of `simulate` for their ranks.

    experiments/bench/process_memory.py build/tandem [--constant MIB]

Trains each plan for two steps in as many processes as it says (--launch env), and compares the peak of the resident memory of each
process with the arenas of its ranks. What a process needs beside them is a constant (program, libraries, text) and a share of them.
Prints a line for each plan; the exit code is 1 where a peak is above 1.02 x arenas + the constant, or below 0.98 x arenas, and 77 where the
program was built without Gloo.
"""
import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile

CONSTANT_MIB = 64
NOT_BUILT, SKIPPED = 4, 77
SHARE = 0.02
GPT2 = {"preset": "gpt2-124m"}
LLAMA = {"family": "llama", "num_layers": 6, "hidden_size": 768, "num_attention_heads": 12, "num_kv_heads": 4, "vocab_size": 32000}
EXPERTS = {**LLAMA, "num_layers": 4, "moe": {"num_experts": 8, "experts_per_token": 2, "ffn_hidden_size": 1024}}


def plan(model, sequences, tokens, batch, precision="fp32", parallel=None, training=None):
    parallel = parallel or {}
    ranks = 1
    for axis in ("tensor", "pipeline", "data", "context"):
        ranks *= parallel.get(axis, 1)
    return {"model": model, "parallel": parallel,
            "training": {"seq_length": tokens, "micro_batch_size": sequences, "global_batch_size": batch, "precision": precision,
                         **(training or {})},
            "cluster": {"preset": "cpu-host", "devices": ranks}}


PLANS = [
    ("GPT-2 124M", 1, plan(GPT2, 4, 64, 4)),
    ("GPT-2 124M, 4 x 256, recomputed", 1, plan(GPT2, 4, 256, 4, training={"recompute": "full"})),
    ("LLaMA, fp64", 1, plan(LLAMA, 2, 128, 4, "fp64")),
    ("GPT-2 124M, two micro-batches", 1, plan(GPT2, 2, 128, 4)),
    ("GPT-2 124M, data 2, ZeRO 1", 2, plan(GPT2, 2, 64, 4, parallel={"data": 2, "zero_stage": 1})),
    ("GPT-2 124M, data 2, ZeRO 3", 2, plan(GPT2, 2, 64, 4, parallel={"data": 2, "zero_stage": 3})),
    ("GPT-2 124M, tensor 2", 2, plan(GPT2, 2, 64, 4, parallel={"tensor": 2})),
    ("GPT-2 124M, pipeline 2", 2, plan(GPT2, 1, 64, 4, parallel={"pipeline": 2})),
    ("LLaMA, tensor 2 x data 2, two ranks a process", 2, plan(LLAMA, 1, 128, 4, parallel={"tensor": 2, "data": 2, "zero_stage": 1})),
    ("experts over 2 ranks", 2, plan(EXPERTS, 2, 64, 4, parallel={"data": 2, "expert": 2})),
]


def arenas(tandem, path, contents, processes):
    """Returns the arena bytes of each process' ranks."""
    done = subprocess.run([tandem, "simulate", path, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        sys.exit(f"simulate {path}: exit {done.returncode}\n{done.stderr}")
    roles = json.loads(done.stdout)["roles"]
    stages = contents["parallel"].get("pipeline", 1)
    ranks = contents["cluster"]["devices"]

    def of_rank(rank):
        stage = rank // (ranks // stages)
        return max(role["arena_bytes"] for role in roles if role["coords"]["pp"] == stage)

    each = ranks // processes
    return [sum(of_rank(process * each + r) for r in range(each)) for process in range(processes)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def peaks(tandem, path, data, processes):
    """Returns the peak resident bytes of each process."""
    command = [tandem, "train", path, "--data", data, "--steps", "2"]
    started = []
    port = str(free_port())
    for process in range(processes):
        environment = dict(os.environ)
        if processes > 1:
            environment.update(RANK=str(process), WORLD_SIZE=str(processes), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        started.append(subprocess.Popen(command + (["--launch", "env"] if processes > 1 else []), env=environment,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    found = []
    for one in started:
        message = one.stderr.read()
        _, status, usage = os.wait4(one.pid, 0)
        if os.waitstatus_to_exitcode(status) == NOT_BUILT and processes > 1:
            print(message, end="")
            sys.exit(SKIPPED)
        if status != 0:
            sys.exit(f"{' '.join(command)}: status {status}\n{message}")
        found.append(usage.ru_maxrss * 1024)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("--constant", type=float, default=CONSTANT_MIB, help="MiB that every process needs beside its ranks")
    parser.add_argument("--data", default=None, help="text to train on; default: the repository's")
    options = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    data = options.data or os.path.join(here, "..", "data", "kjv-new-testament.txt")
    failed = False
    for name, processes, contents in PLANS:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(contents, file)
            planned = arenas(options.tandem, path, contents, processes)
            for process, (arena, peak) in enumerate(zip(planned, peaks(options.tandem, path, data, processes))):
                beside = peak - arena - SHARE * arena
                held = beside <= options.constant * 2**20 and peak >= (1 - SHARE) * arena
                failed = failed or not held
                print(f"{name}, process {process}: arenas {arena / 2**20:.0f} MiB, peak {peak / 2**20:.0f} MiB, "
                      f"{(peak - arena) / 2**20:+.0f} MiB ({peak / arena - 1:+.1%}){'' if held else ', OUTSIDE'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
