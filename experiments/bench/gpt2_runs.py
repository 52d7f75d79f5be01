"""What benchmarks of training GPT-2 share: its plans, a file of one, and what `train` tells of its steps."""
import contextlib
import json
import os
import tempfile

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "kjv-new-testament.txt")
WARM = 2  # steps that are not counted


def plan(sequences, tokens, *, micro_batches=1, ranks=1, precision="fp32", preset="gpt2-124m", cluster=None):
    """`ranks` data ranks, each with so many micro-batches of `sequences` x `tokens`."""
    return {
        "model": {"preset": preset},
        "parallel": {"data": ranks},
        "training": {"seq_length": tokens, "micro_batch_size": sequences, "global_batch_size": sequences * micro_batches * ranks,
                     "precision": precision},
        "cluster": {"preset": "cpu-host", "devices": ranks, **(cluster or {})},
    }


@contextlib.contextmanager
def written(contents):
    """The path of a plan's file, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plan.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(contents, file)
        yield path


def step_lines(told):
    """The words of every step's line in what `train` writes to stderr: the loss is the fourth, milliseconds are the last but one."""
    return [line.split() for line in told.splitlines() if line.startswith("step ")]


def seconds_of(words):
    return float(words[-2]) / 1e3
