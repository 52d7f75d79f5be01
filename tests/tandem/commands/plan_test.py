#!/usr/bin/env python3
"""Capacity questions: one command each, with a published figure or one that is worked out by hand here."""
import math

import tandem
from planning import GPT3, H100, PLANS, plan
from tandem import WithFolder, changed, run


class Published(WithFolder):
    """Inputs and layouts are in the notes of the plans."""

    def near(self, value, published, share):
        self.assertLess(abs(value / published - 1), share, f"{value} and {published} published")

    def test_gpt3_on_1024_a100_takes_34_days(self):
        self.near(plan(GPT3, "--tokens", "300e9", "--failures", 0)["best"]["days"]["value"], 34, 0.03)

    def test_1t_on_3072_a100_takes_84_days(self):
        days = plan(PLANS / "megatron-1t-3072.json", "--tokens", "450e9", "--failures", 0)["best"]["days"]
        self.near(days["value"], 84, 0.05)  # the step itself is predicted 3.3 % long
        self.assertTrue(days["low"] < 84 < days["high"])

    def test_1t_takes_84_days_with_the_published_seconds_of_a_step(self):
        flops = 96 * 3072 * 2048 * 128 * 25600**2 * (1 + 2048 / (6 * 25600) + 51200 / (16 * 128 * 25600))  # (3) of arXiv 2104.04473
        step = flops / (3072 * 163e12)
        best = plan(PLANS / "megatron-1t-3072.json", "--tokens", "450e9", "--failures", 0, "--save", 0, "--step-time", step)["best"]
        self.near(step, 102.6, 0.001)
        self.near(best["days"]["value"], 84, 0.03)
        self.assertAlmostEqual(best["days"]["value"], math.ceil(450e9 / (3072 * 2048)) * step / 86400, places=6)
        self.assertEqual(best["days"]["low"], best["days"]["high"])

    def test_llama2_70b_takes_1720000_device_hours(self):
        self.near(plan(PLANS / "llama2-70b-a100-1024.json", "--tokens", "2e12")["best"]["device_hours"]["value"], 1.72e6, 0.08)

    def test_llama3_405b_takes_30840000_device_hours(self):
        best = plan(PLANS / "llama3-405b-16384.json", "--tokens", "15.6e12", "--storage", "2e12", code=4)["best"]
        self.near(best["device_hours"]["value"], 30.84e6, 0.05)
        self.assertGreater(best["failures"]["goodput"], 0.9)
        self.assertAlmostEqual(best["failures"]["mtbf_hours"], 54 * 24 / 419, places=3)

    def test_deepseek_v3_takes_2664000_device_hours_by_what_its_report_describes(self):
        path = PLANS / "deepseek-v3-2048.json"
        hours = lambda *changes: plan(path, "--tokens", "14.8e12", "--failures", 0, *changes, code=4)["best"]["device_hours"]["value"]
        self.near(hours(), 2.664e6, 0.15)
        self.assertLess(hours("--set", "training.precision=fp8"), hours())                          # a scale for each tensor
        rows = ["--set", "parallel.token_dispatcher=alltoall"]
        self.assertGreater(hours(*rows), 1.2 * hours())                                             # a row for each expert
        self.assertGreater(hours("--set", "parallel.overlap_experts=false"), 1.1 * hours())         # no pass hides the exchange
        self.assertGreater(hours(*rows, "--set", "parallel.overlap_experts=false"), 1.5 * hours())  # neither


class Questions(WithFolder):
    """The questions of capacity planners, one command each."""

    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(H100)
        self.step = tandem.tandem_json("simulate", self.plan)

    def test_devices_or_data_ranks_left_out_change_no_answer(self):
        for more in ((), ("--set", "parallel.tensor=1,2"), ("--devices", "64,128", "--sequences-per-device", 4)):
            asked = (*more, "--tokens", "1e12")
            answers = [plan(self.folder.plan(changed(H100, **{field: None}), "left.json"), *asked) for field in ("cluster.devices", "parallel.data")]
            for answer in answers:
                self.assertEqual([o["days"] for o in answer["options"]], [o["days"] for o in plan(self.plan, *asked)["options"]], more)

    def test_ranks_that_share_a_device_stay_in_other_layouts_of_it(self):
        shared = self.folder.plan(changed(H100, **{"cluster.override": {"ranks_per_device": 2}, "parallel.data": 128, "parallel.zero_stage": 3}), "shared.json")
        best = plan(shared, "--tokens", "1e11")["best"]
        same = plan(shared, "--tokens", "1e11", "--set", "training.recompute=full", "--what-if", "parallel.tensor=2")
        self.assertEqual((same["best"]["layout"]["data"], same["best"]["days"]), (128, best["days"]))
        self.assertEqual(same["what_if"][0]["refusal"], "")
        error = run("plan", shared, "--tokens", "1e11", "--set", "parallel.tensor=3")[2]
        self.assertIn("64 devices of 2 ranks are no multiple of tensor x pipeline x context = 3", error)

    def test_1_days_and_devices_for_a_deadline(self):
        answer = plan(self.plan, "--tokens", "1e12", "--goodput", 0.9, "--devices", "64,128,256", "--days", 40)
        alone = plan(self.plan, "--tokens", "1e12", "--goodput", 0.9)["best"]["days"]["value"]
        self.assertAlmostEqual(alone, math.ceil(1e12 / (256 * 8192)) * self.step["step_time_s"] / 0.9 / 86400)
        at = {o["layout"]["devices"]: o["days"]["value"] for o in answer["options"]}
        in_time = [n for n, days in at.items() if days <= 40]
        self.assertEqual(answer["best"]["layout"]["devices"], min(in_time))
        self.assertGreater(answer["best"]["in_time"], 0.3)

    def test_1_a_measured_step_has_no_range_and_scales_what_changes_do(self):
        changes = ("--tokens", "1e12", "--what-if", "network=0.1", "--what-if", "step_time=1.1", "--failures", 0, "--save", 0)
        simulated, double = plan(self.plan, *changes), plan(self.plan, *changes, "--step-time", 2 * self.step["step_time_s"], "--tornado")
        days = double["best"]["days"]
        self.assertAlmostEqual(days["value"], 2 * simulated["best"]["days"]["value"])
        self.assertEqual((days["low"], days["high"], double["best"]["measured"]), (days["value"], days["value"], True))
        for before, after in zip(simulated["what_if"], double["what_if"]):
            self.assertAlmostEqual(after["days"], 2 * before["days"])
        self.assertNotIn("step_time", [t["input"] for t in double["tornado"]])
        for wanted, probability in ((days["value"] * 1.001, 1), (days["value"] * 0.999, 0)):
            best = plan(self.plan, *changes, "--step-time", 2 * self.step["step_time_s"], "--days", wanted, code=0 if probability else 5)["best"]
            self.assertEqual(best["in_time"], probability)
        code, _, error = run("plan", self.plan, "--tokens", "1e12", "--devices", "64,128", "--step-time", 3)
        self.assertEqual(code, 3)
        self.assertIn("--step-time", error)

    def test_1_a_ramp_up_takes_more_and_shorter_steps(self):
        # Megatron-LM's rule: 64 more sequences for each 1,000 samples, from 64 to 256: batches of 64, 128 and 192 while samples <= 3000.
        ramped = {**H100, "training": {**H100["training"], "batch_rampup": {"start": 64, "increment": 64, "samples": 3000}}}
        steps, consumed, times = 0, 0, 0
        seconds = lambda batch: tandem.tandem_json("simulate", self.folder.plan(tandem.changed(H100, **{"training.global_batch_size": batch})))["step_time_s"]
        at = {batch: seconds(batch) for batch in (64, 128, 192, 256)}
        while consumed < 100_000:
            batch = 256 if consumed > 3000 else 64 + int(consumed / 1000) * 64
            steps, consumed, times = steps + 1, consumed + batch, times + at[batch]
        best = plan(self.folder.plan(ramped, "ramped.json"), "--tokens", consumed * 8192, "--failures", 0, "--save", 0)["best"]
        self.assertAlmostEqual(best["steps"], steps, places=6)
        self.assertLess(abs(best["days"]["value"] / (times / 86400) - 1), 1e-3)  # step times of batches lie nearly on a line

    def test_2_money_per_run_and_per_trillion_tokens(self):
        answer = plan(self.plan, "--tokens", "2e12", "--price", 2, "--what-if", "price=2.2")
        best = answer["best"]
        self.assertAlmostEqual(best["money"]["value"], 2 * best["device_hours"]["value"], places=3)
        self.assertAlmostEqual(best["money"]["per_trillion_tokens"], best["money"]["value"] / 2)
        self.assertAlmostEqual(answer["what_if"][0]["money"], 1.1 * best["money"]["value"], places=3)
        kinds = [plan(self.plan, "--tokens", "2e12", "--price-kind", k)["best"]["money"]["offer"] for k in ("on_demand", "reserved", "spot")]
        self.assertEqual([k["kind"] for k in kinds], ["on_demand", "reserved", "spot"])

    def test_3_the_cheapest_cluster_is_not_the_one_with_the_lowest_price(self):
        answer = plan(self.plan, "--tokens", "1e12", "--cluster", "dgx-h100,dgx-a100-80gb", "--price", "dgx-h100=2,dgx-a100-80gb=1.5",
                      "--set", "training.recompute=full")
        self.assertEqual(answer["best"]["layout"]["cluster"], "dgx-h100")
        for o in answer["options"]:
            price = {"dgx-h100": 2, "dgx-a100-80gb": 1.5}[o["layout"]["cluster"]]
            self.assertAlmostEqual(o["money"]["value"], price * o["device_hours"]["value"], places=3)

    def test_4_energy_of_400_watts_is_hours_times_0_4(self):
        best = plan(self.plan, "--tokens", "1e12", "--watts", 400, "--pue", 1, "--grid", 0.5, "--power-limit", 20)
        energy, hours = best["best"]["energy"], best["best"]["device_hours"]["value"]
        self.assertTrue(math.isclose(energy["kwh"]["value"], hours * 0.4, rel_tol=1e-12))
        self.assertAlmostEqual(energy["co2_kg"], hours * 0.2, places=6)
        self.assertAlmostEqual(energy["peak_kw"], 64 * 0.4)
        self.assertTrue(any("--power-limit" in w for w in best["warnings"]))

    def test_5_goodput_and_the_best_interval(self):
        # One failure an hour, a minute a save: Young sqrt(2 x 60 x 3600) = 657.3 s.
        arguments = ("--tokens", "1e12", "--failures", 24 / 64, "--detection", 60, "--restart", 240, "--save", 60)
        best = plan(self.plan, *arguments)["best"]
        self.assertAlmostEqual(best["checkpoint"]["young_s"], 657.267, places=2)
        self.assertAlmostEqual(best["checkpoint"]["interval_s"], best["checkpoint"]["daly_s"], delta=1)
        rate, segment = 1 / 3600, best["checkpoint"]["interval_s"] + 60
        exact = best["checkpoint"]["interval_s"] * rate * math.exp(-300 * rate) / math.expm1(rate * segment)
        self.assertAlmostEqual(best["failures"]["goodput"], exact, places=9)
        self.assertGreater(plan(self.plan, *arguments, "--async-save")["best"]["failures"]["goodput"], exact)
        # A node is broken for a day: 24 of them on average, of a Poisson distribution; 36 are enough for 99 %.
        spared = plan(self.plan, *arguments, "--repair", 24)["best"]
        self.assertEqual(spared["failures"]["spare_nodes"], 36)
        self.assertGreater(spared["failures"]["available"], 0.99)

    def test_without_failures_a_training_saves_once_or_at_the_given_interval(self):
        arguments = ("--tokens", "1e12", "--failures", 0, "--save", 60)
        once = plan(self.plan, *arguments)["best"]
        work = once["steps"] * tandem.tandem_json("simulate", self.plan)["step_time_s"]
        self.assertTrue(once["checkpoint"]["at_end"])
        self.assertAlmostEqual(once["days"]["value"] * 86400, work + 60, places=2)
        self.assertIn(" once, at the end (no failures, so no interval is best; --interval sets one), ", run("plan", self.plan, *arguments)[1])
        hourly = plan(self.plan, *arguments, "--interval", 3600)["best"]
        self.assertFalse(hourly["checkpoint"]["at_end"])
        self.assertAlmostEqual(hourly["days"]["value"] * 86400, work * (1 + 60 / 3600), delta=1)
        # Where failures are ever less, the interval grows beyond the training, and the answer is the same.
        self.assertAlmostEqual(plan(self.plan, "--tokens", "1e12", "--failures", 1e-15, "--save", 60)["best"]["days"]["value"],
                               once["days"]["value"], places=6)

    def test_6_a_slower_network_takes_longer(self):
        changes = plan(self.plan, "--tokens", "1e12", "--what-if", "network=0.1", "--what-if", "failures=0.001",
                       "--what-if", "cluster.override.oversubscription=4")
        days = changes["best"]["days"]["value"]
        self.assertGreater(changes["what_if"][0]["days"], days)
        self.assertGreaterEqual(changes["what_if"][2]["days"], days)
        slow = dict(H100, cluster={**H100["cluster"], "override": {"scale_out_per_node": "39.99996 GB/s"}})
        alone = plan(self.folder.plan(slow, "slow.json"), "--tokens", "1e12")["best"]["days"]["value"]
        self.assertAlmostEqual(changes["what_if"][0]["days"], alone, places=6)

    def test_a_faster_network_is_limited_by_the_link_to_the_nic(self):
        answer = plan(self.plan, "--tokens", "1e12", "--what-if", "network=2", "--what-if", "network=0.5")
        # a NIC of a DGX H100 has 50 GB/s and a PCIe 5.0 x16 link 63 GB/s
        self.assertRegex(answer["what_if"][0]["note"], r"the link between device and NIC \(63 GB/s\) limits the network: the NIC has (100|99\.9+) GB/s")
        self.assertEqual(answer["what_if"][1]["note"], "")

    def test_a_change_that_cannot_be_leaves_the_others(self):
        changes = ("--what-if", "parallel.tensor=3", "--what-if", "step_time=2")
        answer = plan(self.plan, "--tokens", "1e12", *changes)
        bad, slow = answer["what_if"]
        self.assertIn("64 devices are no multiple of", bad["refusal"])
        self.assertEqual((bad["days"], bad["fits"], slow["refusal"]), (None, False, ""))
        self.assertGreater(slow["days"], answer["best"]["days"]["value"])
        code, text, err = run("plan", self.plan, "--tokens", "1e12", *changes)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("what if parallel.tensor = 3 cannot be: 64 devices are no multiple of", text)
        self.assertIn("what if step_time = 2: ", text)

    def test_a_change_may_set_several_fields(self):
        both = plan(self.plan, "--tokens", "1e12", "--what-if", "parallel.tensor=2,training.recompute=none")["what_if"][0]
        self.assertEqual((both["name"], both["value"]), ("parallel.tensor, training.recompute", "2, none"))
        other = dict(H100, parallel=dict(H100["parallel"], data=32, tensor=2), training=dict(H100["training"], recompute="none"))
        self.assertAlmostEqual(both["step_time_s"],
                               tandem.tandem_json("simulate", self.folder.plan(other, "both.json"), "--allow-oversize")["step_time_s"])

    def test_failures_restarts_and_saves_may_cost_nothing(self):
        options = {"failures": ("--failures", 0), "downtime": ("--detection", 0, "--restart", 0), "save": ("--save", 0)}
        answer = plan(self.plan, "--tokens", "1e12", *(part for name in options for part in ("--what-if", f"{name}=0")))
        for (name, given), change in zip(options.items(), answer["what_if"]):
            alone = plan(self.plan, "--tokens", "1e12", *given)["best"]
            self.assertAlmostEqual(change["days"], alone["days"]["value"], places=6, msg=name)

    def test_the_downtime_of_a_change_is_detection_and_restart(self):
        given = ("--tokens", "1e12", "--detection", 100, "--restart", 200)
        downtime, older = plan(self.plan, *given, "--what-if", "downtime=300", "--what-if", "restart=300")["what_if"]
        self.assertAlmostEqual(downtime["days"], plan(self.plan, *given)["best"]["days"]["value"], places=9)
        self.assertEqual(older, downtime)  # its older name

    def test_a_change_that_a_given_goodput_replaces_is_refused_by_name(self):
        given = ("--tokens", "1e12", "--goodput", 0.9)
        for name in ("failures", "downtime", "save"):
            code, out, error = run("plan", self.plan, *given, "--what-if", f"{name}=1e-4")
            self.assertEqual((code, out), (3, ""), name)
            self.assertIn(f"--what-if: {name} = 1e-4: has no effect beside --goodput", error)
        self.assertEqual({s["input"] for s in plan(self.plan, *given, "--tornado")["tornado"]} & {"failures", "downtime", "save"}, set())
        # A node in repair is missing whatever the goodput: without spares the training waits, and failures have an effect.
        repaired = (*given, "--repair", 24, "--spares", 0)
        one, ten = (plan(self.plan, *repaired, "--what-if", f"failures={rate}")["what_if"][0]["days"] for rate in (1e-4, 1e-3))
        self.assertGreater(ten, one)
        self.assertIn("failures", {s["input"] for s in plan(self.plan, *repaired, "--tornado")["tornado"]})

    def test_7_scaling_costs_efficiency(self):
        strong = plan(self.plan, "--tokens", "1e12", "--devices", "64,256", "--failures", 0)["options"]
        weak = plan(self.plan, "--tokens", "1e12", "--devices", "64,256", "--failures", 0, "--sequences-per-device", 4)["options"]
        hours = [{o["layout"]["devices"]: o["device_hours"]["value"] for o in options} for options in (strong, weak)]
        self.assertGreater(hours[0][256] / hours[0][64], hours[1][256] / hours[1][64])
        self.assertAlmostEqual(hours[0][64], hours[1][64])

    def test_8_memory_that_is_not_there_is_told(self):
        answer = plan(self.plan, "--tokens", "1e12", "--cluster", "dgx-h100,dgx-h200", "--set", "training.recompute=full,none")
        fit = {(o["layout"]["cluster"], o["label"].split()[-1]): o for o in answer["options"]}
        self.assertLess(fit["dgx-h200", "none"]["days"]["value"], fit["dgx-h200", "full"]["days"]["value"])
        for o in answer["options"]:
            room = o["memory"]["device_bytes"] - o["memory"]["needed_bytes"]
            expected = "too large" if room < 0 else "tight" if room < 0.077 * o["memory"]["needed_bytes"] else "fits"
            self.assertEqual(o["memory"]["verdict"], expected, o["label"])

    def test_9_longer_context_costs_attention(self):
        answer = plan(self.plan, "--tokens", "1e12", "--cluster", "dgx-h200", "--set", "training.seq_length=8192,32768",
                      "--set", "parallel.context=1,4", "--failures", 0)
        best = {}
        for o in answer["options"]:
            sequence = o["label"].split(", ")[0]
            best[sequence] = min(best.get(sequence, math.inf), o["days"]["value"])
        ratio = best["training.seq_length 32768"] / best["training.seq_length 8192"]
        # FLOPs of a token: 6 x 8.03e9 of the weights and 6 x 32 layers x 4,096 x its sequence of causal attention: 74.0 over 54.6 GFLOP.
        self.assertLess(abs(ratio / (74.0 / 54.6) - 1), 0.15, ratio)

    def test_10_a_checkpoint_has_14_bytes_a_parameter(self):
        best = plan(self.plan, "--tokens", "1e12", "--storage", "10e9")["best"]
        self.assertEqual(best["checkpoint"]["bytes"], 8030261248 * 14)
        self.assertAlmostEqual(best["checkpoint"]["save_s"], 8030261248 * 1.4e-9)

    def test_11_the_tornado_moves_one_input_at_a_time(self):
        answer = plan(self.plan, "--tokens", "1e12", "--price", 2, "--tornado")
        money = answer["best"]["money"]["value"]
        spans = [abs(s["high"]["money"] - s["low"]["money"]) for s in answer["tornado"]]
        self.assertEqual(spans, sorted(spans, reverse=True))
        sways = {s["input"]: s for s in answer["tornado"]}
        self.assertAlmostEqual(sways["price"]["low"]["money"], 0.9 * money, places=3)
        self.assertAlmostEqual(sways["step_time"]["high"]["money"], answer["best"]["money"]["high"], places=3)
        self.assertLessEqual({"failures", "downtime", "save", "network"}, set(sways))


if __name__ == "__main__":
    tandem.main()
