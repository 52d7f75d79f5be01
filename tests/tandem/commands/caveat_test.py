#!/usr/bin/env python3
"""The caveat of a device's calibration is told by every command that predicts times for the device."""
import json

import tandem
from tandem import SOURCE, WithFolder, run, tandem_json

CAVEAT = json.loads((SOURCE / "topology/calibration/b200.json").read_text())["caveat"]
QUESTION = ("gpt2-345m", "--devices", 8, "--global-batch", 64, "--seq-length", 1024, "--axis", "micro_batch_size=1", "--axis", "recompute=none",
            "--axis", "pipeline=1", "--axis", "context=1")


class Caveat(WithFolder):
    def told_once(self, *arguments):
        text = run(*arguments)[1]
        self.assertEqual(text.count(CAVEAT), 1, text)

    def test_search_tells_it_of_its_device_only(self):
        self.told_once("search", *QUESTION, "--cluster", "dgx-b200")
        self.assertEqual([note.count(CAVEAT) for note in tandem_json("search", *QUESTION, "--cluster", "dgx-b200")["notes"]].count(1), 1)
        self.assertNotIn(CAVEAT, run("search", *QUESTION, "--cluster", "dgx-h100")[1])

    def test_the_front_tells_it_of_the_space_that_it_belongs_to(self):
        both = ("search", *QUESTION, "--cluster", "dgx-h100,dgx-b200", "--pareto")
        self.told_once(*both)
        notes = {space["cluster"]: space["notes"] for space in tandem_json(*both)["spaces"]}
        self.assertEqual(notes["dgx-h100"], [])
        self.assertTrue(len(notes["dgx-b200"]) == 1 and CAVEAT in notes["dgx-b200"][0], notes)

    def test_a_sweep_tells_it_below_its_plans(self):
        study = {"schema_version": 1, "name": "caveat",
                 "base": {"model": {"preset": "gpt2-345m"}, "parallel": {}, "cluster": {"preset": "dgx-h100", "devices": 8},
                          "training": {"seq_length": 1024, "micro_batch_size": 1, "global_batch_size": 64}},
                 "axes": [{"field": "cluster.preset", "values": ["dgx-h100", "dgx-b200"]}]}
        self.told_once("sweep", self.folder.plan(study, "study.json"), "--out", self.path("out"))
        rows = [json.loads(line) for line in (self.folder.path / "out" / "results.jsonl").read_text().splitlines()]
        self.assertEqual({row["layout"]["cluster"]: CAVEAT in row["device_note"] for row in rows}, {"dgx-h100": False, "dgx-b200": True})


if __name__ == "__main__":
    tandem.main()
