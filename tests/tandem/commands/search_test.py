#!/usr/bin/env python3
"""Searches from the command line: rows, counts, exports, refusals."""
import pathlib

import tandem
from tandem import SMALL, WithFolder, changed, run, tandem_json

AXES = ("--axis", "virtual_pipeline=1", "--axis", "schedule=1f1b", "--axis", "zero=0,1", "--axis", "context=1")


class Search(WithFolder):
    def search(self, *arguments):
        return tandem_json("search", *arguments)

    def small(self, **changes):
        return self.folder.plan(changed(SMALL, **changes))

    def test_counts_add_up_and_rows_are_sorted(self):
        answer = self.search(self.small(), *AXES, "--best", 4)
        self.assertEqual(sum(answer["counts"].values()), answer["candidates"])
        times = [row["step_time_s"] for row in answer["best"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(times), 4)

    def test_the_exported_plan_simulates_to_the_time_of_the_first_row(self):
        out = self.folder.path / "best.json"
        answer = self.search(self.small(), *AXES, "--export", out)
        alone = tandem_json("simulate", out)
        self.assertEqual(alone["step_time_s"], answer["best"][0]["step_time_s"])
        self.assertEqual(alone["plan"]["parallel"]["data"], answer["best"][0]["at"]["parallel.data"])

    def test_only_fields_that_say_auto_are_searched(self):
        answer = self.search(self.small(**{"parallel.tensor": "auto", "parallel.data": None}))
        self.assertEqual({field for field in answer["best"][0]["at"]}, {"parallel.tensor", "parallel.data"})
        tensors = sorted(row["at"]["parallel.tensor"] for row in answer["best"])
        self.assertEqual(tensors, [1, 2, 4])
        for row in answer["best"]:
            self.assertEqual(row["at"]["parallel.tensor"] * 2 * row["at"]["parallel.data"], 8)

    def test_why_tells_the_reason_of_a_candidate(self):
        _, out, _ = run("search", self.small(), *AXES, "--why", "tensor=4,pipeline=2,zero=0,micro_batch_size=1,recompute=none,sequence_parallel=false")
        self.assertIn("why tensor=4", out)
        self.assertIn("1 candidate\n", out)

    def test_threads_do_not_change_a_byte(self):
        texts = [run("search", self.small(), *AXES, "--json", "--jobs", jobs)[1] for jobs in (1, 2)]
        self.assertEqual(texts[0], texts[1])

    def test_bad_questions_are_refused(self):
        for arguments, code, said in (
                (("--axis", "tensr=1"), 3, 'did you mean "tensor"'),
                (("--axis", "tensor=1", "--axis", "tp=2"), 3, "given twice"),
                (("--axis", "data=3"), 5, "nothing found"),
                (("--why", "tensor=64"), 3, "is no value of this search")):
            got, _, err = run("search", self.small(), *AXES, *arguments)
            self.assertEqual(got, code, err)
            self.assertIn(said, err)

    def test_an_export_never_replaces_the_plan_that_is_read(self):
        plan = self.small()
        before = pathlib.Path(plan).read_text(encoding="utf-8")
        code, _, err = run("search", plan, *AXES, "--export", plan)
        self.assertEqual(code, 3, err)
        self.assertEqual(pathlib.Path(plan).read_text(encoding="utf-8"), before)


if __name__ == "__main__":
    tandem.main()
