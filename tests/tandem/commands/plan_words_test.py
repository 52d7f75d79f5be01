#!/usr/bin/env python3
"""What `plan` says beside its figures: ranges, warnings, notes and refusals."""
import json
import re

import tandem
from planning import H100, plan
from tandem import WithFolder, changed, run


class Words(WithFolder):
    """Ranges, warnings, notes and refusals."""

    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(H100)

    def test_the_range_of_the_step_passes_to_days_hours_and_money(self):
        best = plan(self.plan, "--tokens", "1e12", "--price", 3)["best"]
        for end in ("low", "high"):
            factor = best["step_time_s"][end] / best["step_time_s"]["value"]
            for key in ("days", "device_hours", "money"):
                self.assertAlmostEqual(best[key][end] / best[key]["value"], factor, places=9)

    def test_failures_are_those_of_chips(self):
        trn2 = tandem.changed(H100, **{"cluster.preset": "trn2.48xlarge", "parallel.data": 8, "parallel.tensor": 8})
        rate = lambda *p: plan(*p, "--tokens", "1e12", "--price", 1)["best"]["failures"]["per_device_day"]
        self.assertAlmostEqual(rate(self.folder.plan(trn2, "trn2.json")), rate(self.plan) / 4)  # four devices a chip
        self.assertEqual(rate(self.folder.plan(trn2, "trn2.json"), "--failures", 0.5), 0.5)
        # AWS' Trainium3 page: 8 physical cores, 4 logical ones, a chip. MI250X: two GCDs a card.
        for cluster, tensor, devices in (("trn3-gen1-ultraserver", 8, 4), ("trn3-gen2-ultraserver", 8, 4), ("frontier", 1, 2)):
            other = tandem.changed(trn2, **{"cluster.preset": cluster, "parallel.tensor": tensor, "parallel.data": 64 // tensor})
            self.assertAlmostEqual(rate(self.folder.plan(other, "other.json")), rate(self.plan) / devices)

    def test_shares_of_the_time_that_a_failure_costs_add_up_to_all_of_it(self):
        text = run("plan", self.plan, "--tokens", "1e12", "--failures", 0.01, "--repair", 24, "--spares", 0)[1]
        line = next(line for line in text.splitlines() if line.startswith("  failures"))
        shares = [float(share) for share in re.findall(r"([\d.]+) %", line)]
        self.assertEqual(len(shares), 5, line)
        self.assertAlmostEqual(sum(shares), 100, delta=0.3, msg=line)  # five shares of one digit

    def test_steps_times_the_batch_are_the_tokens(self):
        text = run("plan", self.plan, "--tokens", "15e12")[1]
        steps, batch = (int(n.replace(",", "")) for n in re.search(r"in ([\d,]+) steps of ([\d,]+) tokens", text).groups())
        self.assertEqual(steps, -(-15 * 10**12 // batch))

    def test_spot_devices_are_warned_of(self):
        for more, warned in (((), True), (("--failures", 0.01), False)):
            answer = plan(self.plan, "--tokens", "1e12", "--price-kind", "spot", *more)
            self.assertEqual(any("spot" in w for w in answer["warnings"]), warned)

    def test_a_comparison_with_b200_says_what_its_products_rest_on(self):
        answer = plan(self.plan, "--tokens", "1e12", "--cluster", "dgx-h100,dgx-b200")
        self.assertEqual(sum(w.startswith("B200") and "its calibration" in w for w in answer["warnings"]), 1, answer["warnings"])

    def test_the_probability_of_being_in_time_grows_with_the_days(self):
        days = plan(self.plan, "--tokens", "1e12")["best"]["days"]
        likely = [plan(self.plan, "--tokens", "1e12", "--days", days["value"] * f, code=code)["best"]["in_time"]
                  for f, code in ((0.5, 5), (1, 0), (2, 0))]
        self.assertTrue(likely[0] < 0.05 < likely[1] < 0.95 < likely[2], likely)
        self.assertGreaterEqual(plan(self.plan, "--tokens", "1e12", "--days", days["high"] * 1.001)["best"]["in_time"], 0.9)

    def test_notes_on_a_plan_are_passed_on_with_the_plan_they_are_about(self):
        note = "recomputing attention saves little memory here"
        said = ("--tokens", "1e12", "--set", "training.recompute=selective,full")
        path = self.folder.plan(changed(H100, **{"parallel.zero_stage": 3}))
        answer = plan(path, *said)
        of = {o["label"]: o["notes"] for o in answer["options"]}
        self.assertEqual({at for at, notes in of.items() if any(n.startswith(note) for n in notes)}, {"training.recompute selective"}, of)
        self.assertFalse(any("simulated as" in n or n.startswith("not verified") for notes in of.values() for n in notes), of)
        self.assertEqual(sum(w.startswith(f"training.recompute selective: {note}") for w in answer["warnings"]), 1, answer["warnings"])
        self.assertIn(f"warning: training.recompute selective: {note}", run("plan", path, *said)[1])

    def test_a_layout_has_every_degree(self):
        degrees = {"tensor": 2, "pipeline": 2, "context": 2, "data": 8, "virtual_pipeline": 2}
        path = self.folder.plan(changed(H100, parallel={**degrees, "schedule": "interleaved", "expert": 4},
                                        **{"model.moe": {"num_experts": 8, "ffn_hidden_size": 1024}}))
        layout = plan(path, "--tokens", "1e12")["best"]["layout"]
        self.assertEqual({k: layout[k] for k in (*degrees, "expert")}, {**degrees, "expert": 4})

    def test_a_model_without_a_layout_says_so(self):
        asked = ("--tokens", "1e12", "--cluster", "dgx-h100", "--devices", 8)
        for model, more, warned in (("llama3-8b", (), True), ("llama3-8b", ("--set", "parallel.tensor=2"), False), (self.plan, (), False)):
            code, out, err = run("plan", model, *asked, *more)
            self.assertEqual(code, 0, err)
            self.assertEqual("no layout given" in out, warned)

    def test_a_device_without_published_step_times_says_so_first(self):
        code, out, _ = run("plan", self.plan, "--tokens", "1e12", "--cluster", "hls-gaudi3")
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("warning: no record on"), out)

    def test_tokens_may_have_a_letter_for_their_power_of_ten(self):
        steps = lambda *arguments: plan(self.plan, *arguments)["best"]["steps"]
        for words, number in (("1.5T", "1.5e12"), ("300B", "3e11"), ("300 G", "3e11"), ("40m", "4e7"), ("9000K", "9e6")):
            self.assertEqual(steps("--tokens", words), steps("--tokens", number), words)
        fields = ":training.seq_length=1024"
        self.assertEqual(steps("--phase", "1T" + fields), steps("--phase", "1e12" + fields))

    def test_bad_input_is_one_clear_error(self):
        cases = ((("--tokens", "-1"), 2, "-1 is no number of tokens"), (("--tokens", "nan"), 2, "nan"),
                 (("--tokens", "1TB"), 2, "--tokens: 1TB is no number of tokens above 0, at most 1e18: write 2e12, 300B or 1.5T"),
                 (("--tokens", "1e12", "--price-kind", "cheap"), 3, "there are on_demand, reserved and spot"),
                 (("--tokens", "1e12", "--cluster", "gb200-nvl72", "--price-kind", "spot"), 3, "give --price"),
                 (("--tokens", "1e12", "--pue", "0.5"), 2, "0.5 is no number from 1"),
                 (("--tokens", "1e12", "--goodput", "0"), 2, "--goodput"),
                 (("--tokens", "1e12", "--failures", "1", "--mtbf", "5"), 2, "excludes"),
                 (("--tokens", "1e12", "--failures", "900"), 3, "thousandth of the time"),
                 (("--tokens", "1e12", "--grid", "mars"), 3, "france or us"),
                 (("--tokens", "1e12", "--set", "parallel.tensr=2"), 3, 'did you mean "parallel.tensor"?'),
                 (("--tokens", "1e12", "--what-if", "luck=2"), 3, "there are network"),
                 (("--tokens", "1e12", "--what-if", "network=-2"), 3, "above zero"),
                 (("--tokens", "1e12", "--what-if", "price=1,network=2"), 3, "give --what-if again for each change"),
                 (("--tokens", "1e12", "--devices", "60,68"), 4, "devices 68: "),
                 (("--tokens", "1e12", "--what-if", "price=0"), 3, "above zero"),
                 (("--tokens", "1e12", "--what-if", "failures=-1"), 3, "0 or more"),
                 (("--tokens", "1e12", "--what-if", "parallel.schedule=zb-h3"), 3, '--what-if parallel.schedule=zb-h3: parallel.schedule = "zb-h3"'),
                 (("--tokens", "1e12", "--set", "tensor=2"), 3, 'did you mean "parallel.tensor"?'),
                 (("--tokens", "1e12", "--what-if", "parallel.tensr=2"), 3, '--what-if: "parallel.tensr"'),
                 (("--tokens", "1e12", "--set", "parallel.tensor=1", "--set", "parallel.tensor=2"), 3, "parallel.tensor: is given twice"),
                 (("--tokens", "1e12", "--price", "2,5"), 2, "write decimals with a point"),
                 (("--tokens", "1e12", "--price", "EUR=2"), 3, '"EUR": there is no cluster preset of this name'),
                 (("--tokens", "1e12", "--price", "DGX-H10=2"), 3, 'did you mean "dgx-h100"?'),
                 (("--tokens", "1e12", "--price", "dgx-h100=2,dgx-h100=5"), 2, "dgx-h100 is given twice"),
                 (("--tokens", "1e12", "--devices", "63", "--set", "parallel.tensor=2"), 4, "no multiple"))
        for arguments, code, said in cases:
            with self.subTest(arguments=arguments):
                done = run("plan", self.plan, *arguments)
                self.assertEqual((done[0], done[1]), (code, ""), done[2])
                self.assertIn(said, done[2])
                self.assertEqual(done[2].count("\n"), 1, done[2])

    def test_a_model_preset_or_a_configuration_needs_a_cluster(self):
        self.assertEqual(run("plan", "llama3-8b", "--tokens", "1e12")[0], 3)
        best = plan("llama3-8b", "--tokens", "1e12", "--cluster", "dgx-h200", "--devices", 64)["best"]
        self.assertEqual((best["layout"]["data"], best["layout"]["zero_stage"]), (64, 3))
        for said, chosen in (((), True), (("--sequences-per-device", 2), False), (("--set", "training.global_batch_size=128"), False)):
            warnings = plan("llama3-8b", "--tokens", "1e12", "--cluster", "dgx-h200", "--devices", 64, *said)["warnings"]
            self.assertEqual(any("one sequence per device" in w for w in warnings), chosen, warnings)
        config = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                  "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
                  "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": False}
        path = self.folder.file("config.json", json.dumps(config))
        same = plan(path, "--tokens", "1e12", "--cluster", "dgx-h200", "--devices", 64)["best"]
        self.assertAlmostEqual(same["days"]["value"], best["days"]["value"])
        text = json.dumps({**config, "unused": [float("inf"), float("nan")]})  # as Python writes them
        self.assertIn("Infinity", text)
        lenient = plan(self.folder.file("python.json", text), "--tokens", "1e12", "--cluster", "dgx-h200", "--devices", 64)["best"]
        self.assertEqual(lenient["days"], same["days"])


if __name__ == "__main__":
    tandem.main()
