#!/usr/bin/env python3
"""Measures how much more two processes on two cores train than one in the same time. The machine should be idle.

    experiments/bench/weak_scaling.py build/tandem [--launch mpi|env] [--processes 2] [--steps 5] [--rounds 2]

Each process has one rank of a data-parallel GPT-2 124M in fp32 and its own micro-batches: one a step of 4 x 64, 1 x 512 and 4 x 512 tokens,
and eight of 4 x 64. Prints the least time of a step behind the first two, alone and together, and the speed-up: tokens a second of all
processes over those of one.
"""
import argparse
import os
import subprocess
import sys

from gpt2_runs import TEXT, WARM, plan, seconds_of, step_lines, written
from process_memory import free_port

SHAPES = [(4, 64, 1), (1, 512, 1), (4, 512, 1), (4, 64, 8)]  # sequences, tokens of each, micro-batches of a rank


def commands(command, launch, processes):
    """Returns each command to start, with its additional environment variables."""
    if processes == 1:
        return [(command, {})]
    if launch == "mpi":
        return [(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(processes)] + command + ["--launch", "mpi"], {})]
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [(command + ["--launch", "env"], {**shared, "RANK": str(process)}) for process in range(processes)]


def steps(tandem, data, contents, count, launch, processes):
    """Returns the seconds of every step, as process 0 prints them."""
    with written(contents) as path:
        command = [tandem, "train", path, "--data", data, "--steps", str(count)]
        started = [subprocess.Popen(words, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                   for words, variables in commands(command, launch, processes)]
        told = [one.communicate()[1] for one in started]
    for one, words in zip(started, told):
        if one.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {one.returncode}\n{words}")
    return [seconds_of(words) for words in step_lines(told[0])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("--launch", choices=["mpi", "env"], default="mpi")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--data", default=TEXT)
    o = parser.parse_args()
    for sequences, tokens, micro_batches in SHAPES:
        best = {}
        for _ in range(o.rounds):
            for processes in (1, o.processes):
                run = steps(o.tandem, o.data, plan(sequences, tokens, micro_batches=micro_batches, ranks=processes), o.steps, o.launch, processes)
                best[processes] = min([best.get(processes, float("inf"))] + run[WARM:])
        one, many = best[1], best[o.processes]
        print(f"{micro_batches} x {sequences} x {tokens}: 1 process {one:.3f} s, {o.processes} processes {many:.3f} s, "
              f"{o.processes * one / many:.2f}x", flush=True)


if __name__ == "__main__":
    main()
