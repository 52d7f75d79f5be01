"""Shared by the GPT-2 training benchmarks: plans, plan files, and the parsing of `train`'s step lines."""
import contextlib
import json
import os
import tempfile

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "kjv-new-testament.txt")
WARM = 2  # steps that are not counted


def plan(sequences, tokens, *, micro_batches=1, ranks=1, precision="fp32", preset="gpt2-124m", cluster=None):
    """A plan with `ranks` data-parallel ranks, each with `micro_batches` micro-batches of `sequences` x `tokens`."""
    return {
        "model": {"preset": preset},
        "parallel": {"data": ranks},
        "training": {"seq_length": tokens, "micro_batch_size": sequences, "global_batch_size": sequences * micro_batches * ranks,
                     "precision": precision},
        "cluster": {"preset": "cpu-host", "devices": ranks, **(cluster or {})},
    }


@contextlib.contextmanager
def written(contents):
    """Writes a plan file to a temporary folder and yields its path."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plan.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(contents, file)
        yield path


def step_lines(told):
    """Splits each step line of `train`'s stderr into words. The fourth word is the loss, the last but one the milliseconds."""
    return [line.split() for line in told.splitlines() if line.startswith("step ")]


def seconds_of(words):
    return float(words[-2]) / 1e3
