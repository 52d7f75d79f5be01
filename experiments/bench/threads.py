#!/usr/bin/env python3
"""Measures the speed-up of a CPU rank with several threads, on GPT-2 124M in fp32. The machine should be idle.

    experiments/bench/threads.py build/tandem [--threads 2] [--steps 6] [--rounds 2]

Trains micro-batches of 4 x 64 and of 1 x 512 tokens on one rank, one step a micro-batch. Runs with one thread and with several take
turns. Prints the least step time of each behind the first two steps, their ratio, and whether all losses are equal.
"""
import argparse
import subprocess
import sys

from gpt2_runs import TEXT, WARM, plan, seconds_of, step_lines, written

SHAPES = [(4, 64), (1, 512)]  # sequences, tokens of each


def steps(tandem, data, contents, count):
    """Returns the seconds and loss of every step."""
    with written(contents) as path:
        command = [tandem, "train", path, "--data", data, "--steps", str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return [(seconds_of(words), words[3]) for words in step_lines(done.stderr)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--data", default=TEXT, help="text to train on; default: the repository's")
    options = parser.parse_args()
    for sequences, tokens in SHAPES:
        best, losses = {}, set()
        for _ in range(options.rounds):
            for threads in (1, options.threads):
                run = steps(options.tandem, options.data, plan(sequences, tokens, cluster={"threads_per_rank": threads}), options.steps)
                best[threads] = min([best.get(threads, float("inf"))] + [seconds for seconds, _ in run[WARM:]])
                losses.add(tuple(loss for _, loss in run))
        one, many = best[1], best[options.threads]
        print(f"{sequences} x {tokens}: 1 thread {one:.3f} s, {options.threads} threads {many:.3f} s, {one / many:.2f}x, "
              f"losses {'equal' if len(losses) == 1 else 'DIFFER'}")


if __name__ == "__main__":
    main()
