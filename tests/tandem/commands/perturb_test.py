#!/usr/bin/env python3
"""Slow devices and links, lost links and jitter: what they cost, said in every way, and refused in one line."""
import json

import tandem
from explain_test import keys_of
from tandem import SMALL, WithFolder, changed, run, tandem_json

A100 = changed(SMALL, **{"cluster": {"preset": "dgx-a100-80gb", "devices": 16}, "training.precision": "bf16", "parallel.data": 4,
                         "training.global_batch_size": 16})
SLOW = {"slow_devices": [{"rank": 2, "factor": 0.5}, {"node": 1, "device": 3, "factor": 0.25}],
        "slow_links": [{"link": "node 0: NIC 2 <-> leaf", "factor": 0.5}]}
JITTER = {"jitter": {"relative": 0.05, "seed": 7, "seeds": 4}}


class Perturb(WithFolder):
    def simulated(self, perturbation, plan=A100):
        return tandem_json("simulate", self.folder.plan(plan), "--perturb", json.dumps(perturbation))

    def test_the_step_is_told_with_and_without_it(self):
        plain = tandem_json("simulate", self.folder.plan(A100))
        self.assertNotIn("perturbation", plain)
        slow = self.simulated(SLOW)
        cost = slow["perturbation"]
        self.assertEqual(cost["undisturbed_step_time_s"], plain["step_time_s"])
        self.assertGreater(slow["step_time_s"], plain["step_time_s"])
        self.assertAlmostEqual(cost["added_s"], slow["step_time_s"] - plain["step_time_s"], places=12)
        self.assertEqual(len(cost["changes"]), 3)
        self.assertLess(len(plain["roles"]), len(slow["roles"]))
        self.assertLess(len(slow["roles"]), slow["ranks"] + 1)
        text = run("simulate", self.folder.plan(A100), "--perturb", json.dumps(SLOW))[1]
        for words in ("of it by perturbation", "device 3 of node 1 computes at 0.25 of its speed", "node 0: NIC 2 <-> leaf at 0.5 of its bandwidth"):
            self.assertIn(words, text)

    def test_object_file_and_plan_say_the_same(self):
        told = self.simulated(SLOW)
        self.assertEqual(tandem_json("simulate", self.folder.plan(A100), "--perturb", self.folder.file("slow.json", json.dumps(SLOW))), told)
        in_plan = changed(A100, **{"cluster.perturbation": SLOW})
        self.assertEqual(tandem_json("simulate", self.folder.plan(in_plan)), told)
        self.assertEqual(told["plan"]["cluster"]["perturbation"], SLOW)
        self.assertEqual(tandem_json("simulate", self.folder.plan(in_plan), "--perturb", "{}"), tandem_json("simulate", self.folder.plan(A100)))

    def test_jitter_is_its_seed_and_has_a_spread_over_seeds(self):
        told = self.simulated(JITTER)
        self.assertEqual(self.simulated(JITTER), told)
        self.assertEqual(len(told["roles"]), told["ranks"])
        spread = told["perturbation"]["step_time_over_seeds"]
        steps = [self.simulated({"jitter": {"relative": 0.05, "seed": seed}})["step_time_s"] for seed in range(7, 11)]
        self.assertEqual(steps[0], told["step_time_s"])
        self.assertEqual((spread["seeds"], spread["low_s"], spread["high_s"]), (4, min(steps), max(steps)))
        self.assertAlmostEqual(spread["mean_s"], sum(steps) / 4, places=12)
        self.assertGreater(spread["deviation_s"], 0)
        self.assertNotIn("perturbation", self.simulated({"jitter": {"relative": 0, "seed": 7}}))

    def test_every_key_has_an_explanation(self):
        file = self.folder.plan(changed(A100, **{"cluster.perturbation": {**SLOW, **JITTER}}))
        keys = [(k, v) for k, v in keys_of(tandem_json("simulate", file)) if "perturbation" in k]
        self.assertGreater(len(keys), 20)
        for key, value in keys:
            told = tandem_json("explain", file, key)
            for part in ("formula", "filled", "range"):
                self.assertTrue(told[part], (key, part))
            if isinstance(value, (int, float)):
                self.assertEqual(told["value"], value, key)

    def test_a_lost_link_is_gone_round_or_stops_the_job(self):
        lost = self.simulated({"lost_links": ["node 0: NIC 2 <-> leaf"]})
        self.assertGreaterEqual(lost["perturbation"]["added_s"], 0)
        code, out, err = run("simulate", self.folder.plan(A100), "--perturb", '{"lost_links": ["node 0: device 3 to switch"]}')
        self.assertEqual((code, out), (4, ""))
        for words in ("plan.json: cluster.perturbation.lost_links", "the job stops", "device 3 of node 0"):
            self.assertIn(words, err)

    def test_what_cannot_be_is_refused_by_name(self):
        for perturbation, words in (
                ({"slow_devices": [{"rank": 16, "factor": 0.8}]}, "rank 16: the cluster has no such rank; use 0 to 15"),
                ({"slow_devices": [{"rank": 1, "factor": 0}]}, "factor 0 of an entry is out of range"),
                ({"slow_devices": [{"rank": 1, "factor": 1e-9}]}, "factor 1e-09 of an entry is out of range; use at least 0.0001 and at most 1"),
                ({"slow_links": [{"link": "node 0: NIC 2 <-> leaf", "factor": 1e-12}]}, "factor 1e-12 of an entry is out of range"),
                ({"slow_links": [{"link": "NIC 2", "factor": 0.5}]}, '"node 0..1: NIC 0..7 to leaf"'),
                ({"lost_links": ["*"]}, "* stands for a numeral"),
                ({"slow_things": []}, "unknown key")):
            code, out, err = run("simulate", self.folder.plan(A100), "--perturb", json.dumps(perturbation))
            self.assertEqual((code, out), (3, ""), perturbation)
            self.assertIn(words, err)
            self.assertEqual(err.count("\n"), 1, err)

    def test_a_step_that_it_makes_too_long_is_its_fault(self):
        device, link = {"rank": 0, "factor": 1e-4}, {"link": "node *: NIC * <-> leaf", "factor": 1e-4}
        for perturbation in ({"slow_devices": [device] * 4}, {"slow_devices": [device] * 6}, {"slow_links": [link] * 4}, {"slow_links": [link] * 6}):
            code, out, err = run("simulate", self.folder.plan(A100), "--perturb", json.dumps(perturbation))
            self.assertEqual((code, out), (4, ""), perturbation)
            self.assertRegex(err, r"plan\.json: cluster\.perturbation: a step that takes \S+ \S+ without it may take longer than is simulated")
            self.assertEqual(err.count("\n"), 1, err)

    def test_a_study_varies_it_like_any_field(self):
        study = {"name": "stragglers", "base": A100,
                 "axes": [{"name": "slow", "values": [{"label": str(f), "set": {"cluster.perturbation.slow_devices": [{"rank": 0, "factor": f}]}}
                                                      for f in (1, 0.5, 0.25)]}]}
        tandem_json("sweep", self.folder.file("study.json", json.dumps(study)), "--out", self.path("out"))
        rows = [json.loads(line) for line in (self.folder.path / "out" / "results.jsonl").read_text().splitlines()]
        steps = [row["step_time_s"] for row in rows]
        self.assertEqual(steps, sorted(steps))
        self.assertLess(steps[0], steps[2])
        self.assertEqual({row["undisturbed_step_time_s"] for row in rows}, {steps[0]})


if __name__ == "__main__":
    tandem.main()
