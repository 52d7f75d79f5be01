"""Drives the tandem program for tests: plans as dictionaries, runs as (exit code, stdout, stderr)."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ.get("TANDEM", "build/tandem")
SOURCE = pathlib.Path(os.environ.get("TANDEM_SOURCE", "."))
NOTHING_MEASURED = str(SOURCE / "tests" / "program" / "nothing_measured")  # no such folder: no table of this machine is used
TEXT = SOURCE / "experiments" / "data" / "kjv-new-testament.txt"

# Small enough to train in a test; 2 x 2 x 2 ranks on eight cores of any machine.
SMALL = {
    "name": "small",
    "model": {"family": "gpt", "num_layers": 2, "hidden_size": 24, "num_attention_heads": 4, "ffn_hidden_size": 40,
              "vocab_size": 256, "pad_vocab_to": 4},
    "parallel": {"tensor": 2, "pipeline": 2, "data": 2},
    "training": {"seq_length": 16, "micro_batch_size": 1, "global_batch_size": 8, "precision": "fp32"},
    "cluster": {"preset": "cpu-host", "devices": 8},
}


def changed(base, **changes):
    """A copy of a plan with dotted fields replaced: changed(SMALL, **{"parallel.tensor": 3}); None removes a field."""
    plan = copy.deepcopy(base)
    for field, value in changes.items():
        *parts, last = field.split(".")
        place = plan
        for part in parts:
            place = place[part]
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return plan


class Folder:
    """A temporary folder with plan files in it."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="tandem_test_")
        self.path = pathlib.Path(self._folder.name)

    def plan(self, plan, name="plan.json"):
        return self.file(name, json.dumps(plan))

    def file(self, name, content):
        path = self.path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def close(self):
        self._folder.cleanup()


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)

    def path(self, name):
        return str(self.folder.path / name)


def run(*arguments, environment=None, timeout=300):
    env = dict(os.environ, TANDEM_MEASURED=NOTHING_MEASURED, NO_COLOR="1")
    env.update(environment or {})
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, env=env, timeout=timeout, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def parsed(what, code, out, err):
    """stdout of a run that must have succeeded, as JSON."""
    if code != 0:
        raise AssertionError(f"{what}: exit {code}\n{err}")
    return json.loads(out)


def tandem_json(*arguments):
    """stdout of a run that must succeed, parsed."""
    return parsed(f"tandem {' '.join(map(str, arguments))}", *run(*arguments, "--json"))


def shown(page):
    """The text on a page once its scripts have run, by node. They must run to their end."""
    node = subprocess.run(["node", pathlib.Path(__file__).with_name("page.js"), page], capture_output=True, text=True, check=False)
    if node.returncode != 0:
        raise AssertionError(f"{page}: {node.stderr[-1500:]}")
    return node.stdout


def plain_program():
    """Whether the program was built without a sanitizer, which takes more address space than a limit of memory leaves."""
    data = pathlib.Path(PROGRAM).read_bytes()
    return not any(mark in data for mark in (b"__asan_init", b"__tsan_init", b"__ubsan_handle"))


def main():
    if not pathlib.Path(PROGRAM).exists():
        sys.exit(f"no program at {PROGRAM}; set TANDEM")
    unittest.main(module="__main__")
