#!/usr/bin/env python3
"""Each guide's commands run as they stand, and print what the guide shows; figures may differ."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tandem
from tandem import PROGRAM, SOURCE

BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"Save this as `([\w./-]+)`:\s*\Z")


def blocks(text):
    """(language, content, the text before) of every block of code."""
    end = 0
    for found in BLOCK.finditer(text):
        yield found.group(1), found.group(2), text[end:found.start()]
        end = found.end()


def shape(line):
    """A line without its figures: a number and its unit of time may differ."""
    return " ".join(re.sub(r"[+-]?[\d,]*\.?\d+(e-?\d+)?( (us|ms|s)\b)?", "#", line).split())


def missing(expected, printed):
    """Lines that are not in what was printed, in this order."""
    rest = iter([shape(line) for line in printed.split("\n")])
    return [line for line in expected.strip().split("\n") if not any(shape(line) == other for other in rest)]


def can_draw():
    return importlib.util.find_spec("matplotlib") is not None


class Guides(unittest.TestCase):
    def place(self):
        """A folder that looks like a clean clone behind `make`."""
        folder = tempfile.TemporaryDirectory(prefix="tandem_guide_")
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        (root / "build").mkdir()
        (root / "build" / "python3").symlink_to(sys.executable)
        (root / "build" / "tandem").symlink_to(pathlib.Path(PROGRAM).resolve())
        for name in ("experiments", "reports", "tests"):
            (root / name).symlink_to((SOURCE / name).resolve())
        return root

    def run_lines(self, root, lines):
        printed = ""
        environment = {**os.environ, "PATH": f"{root / 'build'}:{os.environ['PATH']}", "TANDEM_MEASURED": str(root / "measured")}
        for line in lines:
            done = subprocess.run(["bash", "-c", line.removeprefix("$ ")], cwd=root, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}")
            printed += done.stdout
        return printed

    def follow(self, name):
        root, printed = self.place(), ""
        for language, content, before in blocks((SOURCE / "docs" / name).read_text(encoding="utf-8")):
            if language == "json" or FILE.search(before):
                (root / FILE.search(before).group(1)).write_text(content)
            elif language == "console":
                printed = self.run_lines(root, content.strip().split("\n"))
            elif language == "text":
                self.assertEqual(missing(content, printed), [], f"{name}: printed was\n{printed}")

    def test_the_guide_to_planning_a_cluster_can_be_followed(self):
        self.follow("guide-plan-a-cluster.md")

    @unittest.skipUnless(can_draw(), "matplotlib is not there")
    def test_the_guide_to_a_scaling_study_can_be_followed(self):
        self.follow("guide-scaling-study.md")

    def test_the_guide_to_training_can_be_followed(self):
        self.follow("guide-train.md")

    def test_the_guide_to_comparing_in_ci_can_be_followed(self):
        self.follow("guide-compare-in-ci.md")

    def test_the_page_for_other_frameworks_can_be_followed(self):
        self.follow("coming-from.md")

    def test_a_line_that_was_not_printed_is_found(self):
        self.assertEqual(missing("a 1 s\nb 2", "a 7.5 ms\nc 2"), ["b 2"])
        self.assertEqual(missing("a\nb", "b\na"), ["b"])


if __name__ == "__main__":
    tandem.main()
