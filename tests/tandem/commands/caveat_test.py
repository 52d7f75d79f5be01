#!/usr/bin/env python3
"""What predictions say of their own limits: a calibration's caveat, whose errors a range rests on, rates that a type does not raise."""
import json

import tandem
from tandem import SOURCE, WithFolder, changed, run, tandem_json

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

    def predicted(self, preset, **changes):
        """GPT-2 345M on eight devices, sequence by sequence: on GPUs its step waits for launches."""
        plan = {"model": {"preset": "gpt2-345m"}, "parallel": {}, "cluster": {"preset": preset, "devices": 8},
                "training": {"seq_length": 1024, "micro_batch_size": 1, "global_batch_size": 64, "precision": "fp16"}}
        return tandem_json("simulate", self.folder.plan(changed(plan, **changes)))

    def test_a_step_that_waits_for_launches_says_whose_errors_its_range_rests_on(self):
        rests = "the range comes from errors of such steps"
        known = self.predicted("dgx-a100-80gb")  # has such records
        self.assertGreater(known["time_breakdown_s"]["launch"] / known["step_time_s"], 0.3)
        self.assertIn(rests, " ".join(known["notes"]))
        self.assertNotIn("wait for launches", known["step_time_range"]["wider"])
        for preset, device in (("dgx-1v", "v100"), ("mi300x-8x400g", "mi300x")):  # have none
            other = self.predicted(preset)
            self.assertGreater(other["time_breakdown_s"]["launch"] / other["step_time_s"], 0.3)
            self.assertNotIn(rests, " ".join(other["notes"]))
            self.assertIn("steps that wait for launches", other["step_time_range"]["wider"])
            self.assertIn("no record on " + device, other["step_time_range"]["wider"])
            self.assertGreater(other["step_time_range"]["high_s"] / other["step_time_s"], 1.6)

    def test_8_bits_that_raise_no_rate_are_told(self):
        says = "products in fp8 compute no faster than in bf16"
        gaudi3, gaudi2, wide = (" ".join(self.predicted(preset, **{"training.precision": precision})["notes"])
                                for preset, precision in (("hls-gaudi3", "fp8"), ("hls-gaudi2", "fp8"), ("hls-gaudi3", "bf16")))
        self.assertIn(says, gaudi3)
        self.assertNotIn(says, gaudi2 + wide)


if __name__ == "__main__":
    tandem.main()
