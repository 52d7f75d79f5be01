#!/usr/bin/env python3
"""Measures the time and memory of `tandem search`.

    experiments/bench/search_speed.py build/tandem [--jobs N] [--limit SECONDS] [NAME ...]

Searches each space once. Prints candidates and what became of them, wall and processor seconds, candidates a processor second, and the
peak of the resident memory, then ratios of processor seconds. Processor seconds hardly depend on other work on the machine. The exit
code is 1 where counts do not add up or a search fails. `calculon` has the axes of calculon's own search (calculon-ai/calculon: calculon/llm/runner.py and
calculon/bin/optimal_execution.py) as far as a plan can say them: no plan says that activations or half of the states are offloaded.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

GPT3 = ("gpt3-175b", "--cluster", "dgx-a100-80gb", "--devices", "64")
QWEN3 = ("qwen3-30b-a3b", "--cluster", "dgx-h100", "--devices", "64")
CALCULON = {
    "tensor": "1,2,4,8,16", "pipeline": "1,2,4,8,16,32,64", "context": "1", "micro_batch_size": "1,2,4,8,16",
    "schedule": "1f1b,interleaved", "virtual_pipeline": "1,2,3,4,6,12", "recompute": "none,selective,full",
    "sequence_parallel": "false,true", "scatter_gather_tensors_in_pipeline": "false,true", "zero_stage": "0,1", "overlap_grad_reduce": "false,true",
    "overlap_param_gather": "false,true", "tensor_overlap": "false,true", "overlap_tensor_sum": "false,true",
    "fusion": "transformer-engine-ampere,megatron", "offload.optimizer": "false,true"}

# Processor seconds of one search over those of another.
RATIOS = {"sets of modules over attention alone": ("qwen3-30b-a3b", "qwen3-30b-a3b-attention")}


def axes(values):
    return [word for name, list_of in values.items() for word in ("--axis", f"{name}={list_of}")]


SPACES = {
    "gpt-1.3b": ["gpt-1.3b", "--cluster", "dgx-a100-80gb", "--devices", "8", "--global-batch", "32"],
    "llama2-70b": ["llama2-70b", "--cluster", "dgx-h100", "--devices", "64", "--global-batch", "128"],
    "mixtral-8x7b": ["mixtral-8x7b", "--cluster", "dgx-h100", "--devices", "64"],
    "qwen3-30b-a3b": [*QWEN3],
    "qwen3-30b-a3b-attention": [*QWEN3, "--axis", 'recompute_modules=["core_attention"]'],
    "llama3-70b-mi300x": ["llama3-70b", "--cluster", "mi300x-8x400g", "--devices", "64", "--seq-length", "8192"],
    "deepseek-v3-h800": ["deepseek-v3", "--cluster", "hgx-h800", "--devices", "2048", "--global-batch", "15360"],
    "deepseek-v3-gb200": ["deepseek-v3", "--cluster", "gb200-nvl72", "--devices", "2304", "--global-batch", "9216"],
    "qwen3-235b-gb200": ["qwen3-235b-a22b", "--cluster", "gb200-nvl72", "--devices", "2304", "--global-batch", "9216"],
    "gpt3-175b": [*GPT3],
    "calculon-fits": [*GPT3, *axes({**CALCULON, "offload.optimizer": "false"})],
    "calculon": [*GPT3, *axes(CALCULON)],
}


def search(tandem, arguments, jobs, limit):
    """Returns answer, wall seconds, processor seconds and MB of a search. The answer is None if it failed or took too long."""
    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        process = subprocess.Popen([tandem, "search", *arguments, "--json", "--jobs", str(jobs)], stdout=out, stderr=subprocess.DEVNULL)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - start > limit:
                process.kill()
            time.sleep(0.01)
        seconds = time.monotonic() - start
        out.seek(0)
        answer = json.load(out) if status == 0 else None
    return answer, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    options = argparse.ArgumentParser()
    options.add_argument("tandem")
    options.add_argument("names", nargs="*", default=[])
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("--limit", type=float, default=3600)
    given = options.parse_intermixed_args()
    failed = False
    spent_by = {}
    for name in given.names or SPACES:
        answer, seconds, processor, megabytes = search(given.tandem, SPACES[name], given.jobs, given.limit)
        spent = f"{seconds:.1f} s, processor {processor:.1f} s, {megabytes:.0f} MB"
        if answer is None:
            print(f"{name}: failed after {spent}")
            failed = True
            continue
        spent_by[name] = processor
        total, counts = answer["candidates"], answer["counts"]
        told = ", ".join(f"{count:,} {fate}" for fate, count in counts.items() if count)
        print(f"{name}: {total:,} candidates, {spent}; {total / processor:,.0f} candidates a processor second; {told}")
        failed |= sum(counts.values()) != total
    for what, (one, other) in RATIOS.items():
        if one in spent_by and other in spent_by:
            print(f"{what}: {spent_by[one] / spent_by[other]:.2f} times the processor time")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
