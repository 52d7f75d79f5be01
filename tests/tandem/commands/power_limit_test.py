#!/usr/bin/env python3
"""Plans under a power limit: steps, ranges, explanations, days, money and energy, sweeps and searches."""
import json

import tandem
from planning import H100, plan
from tandem import WithFolder, changed, run, tandem_json

FIELD = "cluster.override.power_limit_watts"


def limited(base, watts):
    return changed(base, **{"cluster.override": {"power_limit_watts": watts}}) if watts else base


class PowerLimit(WithFolder):
    def simulate(self, watts, base=H100):
        return tandem_json("simulate", self.folder.plan(limited(base, watts)))

    def test_a_lower_limit_is_slower_by_less_than_its_clock_and_says_so(self):
        free, *steps = [self.simulate(watts) for watts in (None, 700, 650, 600, 500, 400, 200)]
        times = [s["step_time_s"] for s in steps]
        self.assertEqual(times, sorted(times))
        self.assertEqual(times[0], free["step_time_s"])
        self.assertLess(times[0], times[1])
        # ((500 - 75) / (700 - 75)) x 0.83 / 0.83^1.9 = 0.804; kernels that the memory bounds keep their time.
        slower = times[3] / times[0]
        self.assertGreater(slower, 1.1)
        self.assertLess(slower, 1 / 0.804)
        notes = steps[3]["notes"]
        self.assertTrue(any(f"{FIELD}: 500 W of 700 W: arithmetic runs at 0.804 of its clock" in note for note in notes), notes)
        self.assertIn("arithmetic runs at 0.804 of its clock", run("simulate", self.folder.plan(limited(H100, 500)))[1])
        for at_rated in (free, steps[0]):
            self.assertFalse(any("power_limit" in note for note in at_rated["notes"]))

    def test_the_range_is_wider_because_no_record_has_a_limit(self):
        free, capped = (self.simulate(watts)["step_time_range"] for watts in (None, 500))
        self.assertIn("a power limit", capped["wider"])
        self.assertIn("no record on any device has a power limit", capped["wider"])
        self.assertNotIn("a power limit", free["wider"] or "")

    def test_explain_shows_the_formula_its_values_and_their_sources(self):
        file = self.folder.plan(limited(H100, 500))
        told = tandem_json("explain", file, "time_breakdown_s.compute")
        self.assertIn("(limit - idle_w) / (busy_w - idle_w)", told["formula"])
        self.assertIn("clock 0.8042 at (500.0 - 75.0) / (700.0 - 75.0) W", told["filled"])
        facts = {f["field"]: f for f in told["facts"] if f["part"] == "power"}
        self.assertEqual(facts["limit.clock_exponent"]["value"], "1.9")
        self.assertIn("rocm.blogs.amd.com", facts["limit.clock_exponent"]["origin"])
        self.assertEqual(facts["devices.h100-sxm5-80gb.busy_w"]["value"], "700")
        text = run("explain", file, "step_time_s")[1]
        self.assertIn("clock 0.8042", text)
        self.assertNotIn("power limit", run("explain", self.folder.plan(H100, "free.json"), "step_time_s")[1])
        self.assertIn("500", tandem_json("explain", file, f"plan.{FIELD}")["text"])

    def test_a_plan_answers_days_money_and_energy_of_a_limit(self):
        answer = plan(self.folder.plan(H100), "--tokens", "1e12", "--price", 2, "--goodput", 1,
                      "--what-if", f"{FIELD}=500", "--what-if", f"{FIELD}=700", "--what-if", f"{FIELD}=701")
        best, (low, rated, above) = answer["best"], answer["what_if"]
        days = low["days"] / best["days"]["value"]
        self.assertAlmostEqual(days, self.simulate(500)["step_time_s"] / self.simulate(None)["step_time_s"], places=6)
        self.assertAlmostEqual(low["money"] / best["money"]["value"], days, places=6)
        # Devices draw 500 of 700 W, their hosts 350 W as before.
        self.assertAlmostEqual(low["energy_kwh"] / best["energy"]["kwh"]["value"], days * (500 + 350) / (700 + 350), places=6)
        self.assertLess(low["energy_kwh"], best["energy"]["kwh"]["value"])
        self.assertEqual((rated["days"], rated["energy_kwh"]), (best["days"]["value"], best["energy"]["kwh"]["value"]))
        self.assertIn("H100 SXM5 80 GB is rated at 700 W", above["refusal"])
        own = plan(self.folder.plan(limited(H100, 500)), "--tokens", "1e12", "--goodput", 1)["best"]["energy"]
        self.assertEqual((own["busy_w"], own["kwh"]["value"]), (500, low["energy_kwh"]))
        text = run("plan", self.folder.plan(H100), "--tokens", "1e12", "--what-if", f"{FIELD}=500")[1]
        self.assertRegex(text, r"what if cluster\.override\.power_limit_watts = 500: .* days, money .*, energy [\d.,]+ \(-[\d.]+ %\) MWh")

    def test_a_sweep_over_limits_has_the_steps_of_its_plans(self):
        watts = [400, 500, 600, 700]
        study = {"name": "watts", "base": H100, "axes": [{"field": FIELD, "values": watts}]}
        out = self.folder.path / "out"
        tandem_json("sweep", self.folder.file("study.json", json.dumps(study)), "--out", out)
        rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        self.assertEqual([row["step_time_s"] for row in rows], [self.simulate(w)["step_time_s"] for w in watts])

    def test_a_search_ranks_layouts_under_the_limit_by_their_simulated_steps(self):
        subject = {"model": {"preset": "llama3-8b"}, "cluster": {"preset": "dgx-h100", "devices": 16}, "stack": "megatron-core",
                   "parallel": {}, "training": {"seq_length": 4096, "global_batch_size": 64}}
        axes = ("--axis", "parallel.tensor=1,2,4,8", "--axis", "parallel.pipeline=1,2", "--axis", "parallel.zero_stage=1",
                "--axis", "training.micro_batch_size=1,2")
        steps = []
        for watts in (None, 600, 400):
            base = limited(subject, watts)
            best = tandem_json("search", self.folder.plan(base), *axes)["best"]
            for found in (best[0], best[-1]):
                at = {field: value for field, value in found["at"].items() if value != "auto"}
                if at["training.recompute"] != "selective":
                    del at["training.recompute_modules"]
                alone = tandem_json("simulate", self.folder.plan(changed(base, **at), "alone.json"))
                self.assertEqual((found["step_time_s"], found["step_time_wider"]), (alone["step_time_s"], alone["step_time_range"]["wider"]))
            steps.append(best[0]["step_time_s"])
        self.assertEqual(steps, sorted(set(steps)))

    def test_devices_without_watts_and_limits_out_of_range_are_refused(self):
        for preset, watts, reason in (("cpu-host", 100, "no rated power of "), ("dgx-1v", 200, "no rated power of "),
                                      ("dgx-h100", 199, "the lowest limit of H100 SXM5 80 GB is 200 W"),
                                      ("dgx-h100", 701, "H100 SXM5 80 GB is rated at 700 W")):
            base = changed(H100, **{"cluster.preset": preset, "cluster.devices": 64})
            code, _, error = run("simulate", self.folder.plan(limited(base, watts)))
            self.assertIn(code, (3, 4), error)
            self.assertIn(f"{FIELD} = {watts} W: {reason}", error)
        code, _, error = run("simulate", self.folder.plan(changed(H100, **{"cluster.override": {"power_limit_watts": 0}})))
        self.assertEqual(code, 3)
        self.assertIn(FIELD, error)


if __name__ == "__main__":
    tandem.main()
