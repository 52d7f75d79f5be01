#!/usr/bin/env python3
"""The simulator's outputs on 22 plans of public systems, 100 published runs and one plan of Muon are, to the last digit, those that are stored."""
import copy
import sys
import unittest

import golden
import summary

MOST_LINES = 20


class Golden(unittest.TestCase):
    def test_every_output_is_the_stored_one(self):
        found = list(golden.all_differences(golden.stored_all(), golden.simulate_all()))
        if found:
            lines = [f"{plan}: {field}: before {before}, after {after}" for plan, field, before, after in found[:MOST_LINES]]
            self.fail("\n".join([f"{len(found)} differences in {len({f[0] for f in found})} plans; the first {len(lines)}:", *lines,
                                 "If they are meant, write them anew: tests/golden/update.py"]))


class Comparison(unittest.TestCase):
    OUTPUT = {"step_time_s": 1.5, "fits": True, "notes": ["a note"], "roles": [{"ranks": 4}], "step_time_range": {"basis": "a text"},
              "plan": {"name": "x", "stack": "tandem", "model": {"name": "y", "vocab_size": 8}}}

    def changed(self, *path, value):
        out = place = copy.deepcopy(self.OUTPUT)
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return list(golden.differences(self.OUTPUT, out))

    def test_the_last_digit_counts(self):
        self.assertEqual(self.changed("step_time_s", value=1.5000000000000002), [("step_time_s", 1.5, 1.5000000000000002)])

    def test_numbers_truths_and_a_plan_s_texts_are_compared(self):
        self.assertEqual(self.changed("fits", value=False), [("fits", True, False)])
        self.assertEqual(self.changed("fits", value=1), [("fits", True, 1)])
        self.assertEqual(self.changed("roles", 0, "ranks", value=5), [("roles[0].ranks", 4, 5)])
        self.assertEqual(self.changed("plan", "stack", value="jax"), [("plan.stack", "tandem", "jax")])
        self.assertEqual(self.changed("plan", "model", "vocab_size", value=9), [("plan.model.vocab_size", 8, 9)])

    def test_texts_outside_the_plan_and_names_are_not(self):
        self.assertEqual(self.changed("notes", value=[]), [])
        self.assertEqual(self.changed("step_time_range", "basis", value="another"), [])
        self.assertEqual(self.changed("plan", "name", value="z"), [])
        self.assertEqual(self.changed("plan", "model", "name", value="z"), [])

    def test_a_field_or_a_plan_that_comes_or_goes_is_a_difference(self):
        self.assertEqual(self.changed("roles", value=[]), [("roles[0].ranks", 4, golden.ABSENT)])
        self.assertEqual(self.changed("mfu", value=0.5), [("mfu", golden.ABSENT, 0.5)])
        self.assertEqual(list(golden.all_differences({"a": self.OUTPUT}, {})), [("a", "output", "present", golden.ABSENT)])

    def test_a_summary_counts_plans_and_names_the_smallest_and_largest_relative_change(self):
        rows = [("a", "roles[0].mfu", 2.0, 1.0), ("a", "roles[1].mfu", 4.0, 4.1), ("b", "fits", True, False), ("b", "roles[0].mfu", 2.0, 3.0)]
        self.assertEqual(summary.by_field(rows), ["fits: 1 plan: True -> False in 1", "roles[].mfu: 2 plans: -50 % to +50 %"])


if __name__ == "__main__":
    if not golden.pathlib.Path(golden.PROGRAM).exists():
        sys.exit(f"no program at {golden.PROGRAM}; set TANDEM")
    unittest.main()
