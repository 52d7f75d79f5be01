#!/usr/bin/env python3
"""The page of the runs that Tandem descends from shows what its two scripts print."""
import subprocess
import sys
import unittest

import tandem
from tandem import PROGRAM, SOURCE

PAGE = SOURCE / "experiments" / "corpus" / "seeds" / "README.md"


def table(text, header):
    """Lines of the Markdown table that begins with `header`."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(header))
    length = next((i for i, line in enumerate(lines[first:]) if not line.startswith("|")), len(lines) - first)
    return lines[first:first + length]


class SeedsPage(unittest.TestCase):
    maxDiff = None

    def same(self, script, header, *arguments):
        printed = subprocess.run([sys.executable, PAGE.parent / script, PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout
        self.assertGreater(len(printed.splitlines()), 10)
        self.assertEqual(table(PAGE.read_text(encoding="utf-8"), header), table(printed, header), f"run {script} and put its table into the page")

    def test_the_published_figures_stand_beside_today_s_predictions(self):
        self.same("figures.py", "| run |")

    def test_every_plan_has_today_s_prediction(self):
        self.same("table.py", "| plan |", "--jobs", "2")

    def test_a_prediction_for_a_framework_before_all_records_says_so(self):
        told = tandem.tandem_json("simulate", SOURCE / "experiments" / "plans" / "gpt-6.7b-trn1.json")
        self.assertIn("code as old as 2022-10 (its constants rest on records of 2023-03 to ", told["step_time_range"]["wider"])


if __name__ == "__main__":
    tandem.main()
