#!/usr/bin/env python3
"""Capacity questions with limits: of money and of time, of what fits and of what is sold."""
import datetime
import json
import math
import re

import tandem
from planning import H100, plan
from tandem import SOURCE, WithFolder, changed, run

B200 = {"stack": "megatron-core", "model": {"preset": "llama3-8b"}, "parallel": {"data": 8},
        "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 32}, "cluster": {"preset": "dgx-b200", "devices": 8}}


class Limits(WithFolder):
    """Limits of money and time, short trainings, and what comparisons must say."""

    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(H100)

    def test_money_is_within_a_budget_with_the_probability_of_the_days_that_it_pays(self):
        asked = ("--tokens", "1e12", "--price", 2)
        best = plan(self.plan, *asked)["best"]
        self.assertIsNone(best["in_budget"])
        for share in (0.9, 1, 1.2):
            limits = ("--budget", best["money"]["value"] * share, "--days", best["days"]["value"] * share)
            both = plan(self.plan, *asked, *limits, code=5 if share < 1 else 0)["best"]
            self.assertAlmostEqual(both["in_budget"], both["in_time"])
        self.assertIn("within 1,000,000 with a probability of", run("plan", self.plan, *asked, "--budget", 1e6)[1])
        answer = plan(self.plan, *asked, "--devices", "64,128", "--budget", 1, code=5)
        self.assertLess(answer["best"]["in_budget"], 0.01)
        self.assertIn("costs at most 1.00; the cheapest costs", run("plan", self.plan, *asked, "--devices", "64,128", "--budget", 1)[2])
        code, _, error = run("plan", self.plan, "--tokens", "1e12", "--cluster", "trn2.48xlarge", "--set", "parallel.tensor=8", "--budget", 1e6)
        self.assertEqual((code, "give --price" in error), (3, True), error)

    def test_a_missed_limit_is_exit_code_5_for_one_plan_and_for_several(self):
        asked = ("--tokens", "1e12", "--price", 2)
        alone = plan(self.plan, *asked)["best"]
        for sizes in ((), ("--devices", "64,128")):
            for limit, figure in (("--days", alone["days"]["value"]), ("--budget", alone["money"]["value"])):
                for share, code in ((0.1, 5), (10, 0)):
                    got, out, error = run("plan", self.plan, *asked, *sizes, limit, share * figure)
                    self.assertEqual((got, bool(error)), (code, code == 5), error)
                    self.assertIn("  days  ", out)  # the answer comes all the same
        error = run("plan", self.plan, *asked, "--days", 1)[2]
        self.assertRegex(error, r"\Atandem: .*plan.json: the plan takes \d+\.\d days; --days allows 1\.00\n\Z")
        both = run("plan", self.plan, *asked, "--days", 1, "--budget", 10)[2]
        self.assertRegex(both, r"days; --days allows 1\.00; and the plan costs [\d,]+; --budget allows 10\.0\n\Z")

    def test_a_limit_that_is_missed_by_less_than_is_shown_gets_more_digits(self):
        asked = ("--tokens", "1e12", "--price", 2)
        alone = plan(self.plan, *asked)["best"]
        for limit, figure in (("--days", alone["days"]["value"]), ("--budget", alone["money"]["value"])):
            error = run("plan", self.plan, *asked, limit, figure * (1 - 1e-6))[2]
            told = re.search(r"the plan (?:takes|costs) ([\d.,]+)(?: days)?; --(?:days|budget) allows ([\d.,]+)\n", error)
            takes, allows = (float(text.replace(",", "")) for text in told.groups())
            self.assertGreater(takes, allows, error)
            self.assertLess(abs(takes / figure - 1), 1e-6, error)

    def test_the_fewest_devices_within_days_and_budget_are_marked(self):
        asked = ("--tokens", "1e12", "--price", 2, "--devices", "64,128,256", "--goodput", 0.9)
        at = {o["layout"]["devices"]: o for o in plan(self.plan, *asked)["options"]}
        days, money = at[128]["days"]["value"] * 1.001, at[128]["money"]["value"] * 1.001
        both = (*asked, "--days", days, "--budget", money)
        answer = plan(self.plan, *both)
        self.assertEqual((answer["fewest_devices"], answer["best"]["layout"]["devices"]), (128, 128))
        marked = [line for line in run("plan", self.plan, *both)[1].splitlines() if "fewest devices that meet the limits" in line]
        self.assertEqual([line.split()[1] for line in marked], ["128"])
        self.assertIsNone(plan(self.plan, *asked)["fewest_devices"])
        self.assertIsNone(plan(self.plan, *asked, "--days", days / 10, code=5)["fewest_devices"])

    def test_another_device_has_its_own_price_or_none(self):
        answer = plan(self.plan, "--tokens", "1e12", "--what-if", "cluster.preset=trn2.48xlarge", "--what-if", "cluster.preset=nd96isr_h100_v5")
        other, same = answer["what_if"]
        self.assertIsNone(other["money"])
        self.assertIn("no price is known of logical NeuronCore of Trainium2", other["note"])
        self.assertIn("64 devices of trn2.48xlarge are 16 chips, 64 devices of dgx-h100 are 64 chips", other["note"])
        self.assertNotIn("chips", same["note"])
        self.assertIsNotNone(same["money"])
        own = plan(self.plan, "--tokens", "1e12", "--what-if", "cluster.preset=trn2.48xlarge", "--price", "dgx-h100=2,trn2.48xlarge=1")
        self.assertAlmostEqual(own["what_if"][0]["money"] / own["what_if"][0]["days"], 64 * 24, places=3)

    def test_a_price_of_no_compared_cluster_is_refused(self):
        for arguments in (("plan", self.plan, "--tokens", "1e12"), ("search", self.plan, "--pareto", "--axis", "tensor=1")):
            code, out, error = run(*arguments, "--price", "dgx-h200=2")
            self.assertEqual((code, out), (3, ""))
            self.assertIn("--price: dgx-h200: no plan is on this cluster; they are on dgx-h100", error)

    def test_a_price_that_is_not_known_can_be_asked_for(self):
        trn2 = self.folder.plan(changed(H100, **{"cluster.preset": "trn2.48xlarge", "parallel.data": 8, "parallel.tensor": 8}), "trn2.json")
        told = plan(trn2, "--tokens", "1e12", "--what-if", "price=2")
        self.assertIsNone(told["best"]["money"])
        self.assertIn("no price is known of logical NeuronCore of Trainium2 (two NeuronCore-v3): give --price, of a device hour",
                      run("plan", trn2, "--tokens", "1e12")[1])
        self.assertAlmostEqual(told["what_if"][0]["money"], 2 * told["best"]["device_hours"]["value"], places=3)

    def test_every_row_without_money_or_energy_has_its_reason_and_parts_of_chips_are_marked(self):
        clusters = ("--cluster", "dgx-h100,dgx-b300,trn2.48xlarge", "--set", "parallel.tensor=8")
        answer = plan(self.plan, "--tokens", "1e12", *clusters)
        for o in answer["options"]:
            name = {"dgx-h100": "H100", "dgx-b300": "B300", "trn2.48xlarge": "logical NeuronCore of Trainium2"}[o["layout"]["cluster"]]
            for part, said in (("money", "no price is known of " + name), ("energy", "watts of " + name)):
                self.assertEqual(any(said in w for w in answer["warnings"]), o[part] is None, (part, name, answer["warnings"]))
        rows = run("plan", self.plan, "--tokens", "1e12", *clusters)[1].splitlines()
        self.assertEqual([row.split()[1] for row in rows if "a device is 1/4 of a chip" in row], ["trn2.48xlarge"])
        self.assertEqual([row.split()[1] for row in rows if row.startswith("  cluster ") and "no price" in row], ["trn2.48xlarge"])

    def test_products_that_are_measured_on_one_side_alone_are_told(self):
        answer = plan(self.plan, "--tokens", "1e12", "--what-if", "cluster.preset=dgx-a100-80gb", "--what-if", "parallel.zero_stage=2")
        self.assertRegex(answer["what_if"][0]["note"], "matrix products of H100.* are measured, those of A100.* are computed from its rates")
        self.assertEqual(answer["what_if"][1]["note"], "")
        compared = plan(self.plan, "--tokens", "1e12", "--cluster", "dgx-h100,dgx-a100-80gb")
        self.assertEqual(sum("matrix products of H100" in w for w in compared["warnings"]), 1)

    def test_a_change_tells_its_tokens_and_seconds_of_a_step(self):
        long = self.folder.plan(changed(H100, **{"training.seq_length": 16384}), "long.json")
        answer = plan(self.plan, "--tokens", "1e12", "--what-if", "training.seq_length=16384", "--what-if", "failures=1")
        self.assertEqual([c["tokens_per_step"] for c in answer["what_if"]], [256 * 16384, 256 * 8192])
        self.assertAlmostEqual(answer["what_if"][0]["step_time_s"], tandem.tandem_json("simulate", long, "--allow-oversize")["step_time_s"])
        self.assertIn("steps of 4,194,304 tokens in ", run("plan", self.plan, "--tokens", "1e12", "--what-if", "training.seq_length=16384")[1])

    def test_a_short_training_has_whole_steps_one_save_and_hours(self):
        step = tandem.tandem_json("simulate", self.plan)["step_time_s"]
        best = plan(self.plan, "--tokens", "1e8", "--failures", 1e-9, "--save", 30)["best"]
        self.assertEqual(best["steps"], math.ceil(1e8 / (256 * 8192)))
        self.assertAlmostEqual(best["days"]["value"] * 86400, best["steps"] * step + 30, places=2)
        text = run("plan", self.plan, "--tokens", "1e8")[1]
        self.assertRegex(text, r"tokens +100,000,000 in 48 steps of 2,097,152")
        self.assertRegex(text, r"\n  hours +0\.\d+ \(")
        self.assertIn(" once, at the end,", text)
        self.assertNotIn("\n  days ", text)

    def test_a_plan_that_does_not_fit_is_told_what_would_help(self):
        large = changed(H100, **{"model.preset": "llama3-70b", "training.recompute": "none", "training.micro_batch_size": 2})
        for command in (("simulate",), ("plan", "--tokens", "1e12")):
            code, _, error = run(command[0], self.folder.plan(large, "large.json"), *command[1:])
            self.assertEqual(code, 4)
            for way in ("training.recompute", "training.micro_batch_size", "parallel.zero_stage", "split it by tensor or pipeline", "tandem search"):
                self.assertIn(way, error)
        split = changed(large, **{"training.recompute": "full", "training.micro_batch_size": 1, "parallel.tensor": 2, "parallel.data": 32,
                                  "parallel.zero_stage": 0})
        error = run("simulate", self.folder.plan(split, "split.json"))[2]
        self.assertIn("shard more (parallel.zero_stage), split it further or let", error)
        self.assertNotIn("training.recompute", error)

    def test_another_memory_of_the_devices_can_be_asked_for(self):
        small = self.folder.plan(changed(H100, **{"model.preset": "llama3-70b", "parallel.zero_stage": 3, "training.recompute": "none"}), "small.json")
        answer = plan(small, "--tokens", "1e12", "--what-if", "cluster.override.memory_bytes=320 GiB",
                      "--what-if", "cluster.override.memory_bytes_per_s=33.5 TB/s", "--what-if", "cluster.override.memory_bytes_per_s=1.675 TB/s", code=4)
        large, fast, slow = answer["what_if"]
        self.assertEqual((answer["best"]["memory"]["verdict"], large["fits"], fast["fits"]), ("too large", True, False))
        self.assertLess(fast["days"], slow["days"])
        self.assertNotIn("are measured", fast.get("note") or "")  # both plans' are, the other's scaled
        notes = tandem.tandem_json("simulate", self.folder.plan(changed(H100, **{"cluster.override": {"memory_bytes_per_s": "6.7 TB/s"}})))["notes"]
        self.assertTrue(any("times measured on H100 SXM5 80 GB change as those of its roofline do" in note for note in notes), notes)
        code, _, error = run("simulate", self.folder.plan(changed(H100, **{"cluster.override": {"memory_bytes": "160 Gb"}})))
        self.assertEqual((code, "cluster.override.memory_bytes" in error), (3, True), error)

    def test_faster_memory_never_makes_a_measured_step_slower_nor_jumps(self):
        def step(rate):
            override = {"cluster.override": {"memory_bytes_per_s": f"{rate} TB/s"}} if rate else {}
            return tandem.tandem_json("simulate", self.folder.plan(changed(B200, **override)), "--allow-oversize")["step_time_s"]
        own, rates = step(None), [4, 7.99, 8, 8.01, 16, 64]
        steps = [step(rate) for rate in rates]
        self.assertEqual(steps, sorted(steps, reverse=True))
        self.assertEqual(steps[2], own)  # the preset's
        for near in (steps[1], steps[3]):
            self.assertLess(abs(near / own - 1), 0.00126)  # no part of a step changes by more than the memory
        self.assertGreater(steps[0], 1.02 * own)
        self.assertLess(steps[0], 2 * own)

    def test_what_a_model_lacks_is_named(self):
        for given, lacks in ((("--cluster", "dgx-h100"), "--devices"), (("--devices", 8), "--cluster"), ((), "--cluster and --devices")):
            error = run("plan", "llama3-8b", "--tokens", "1e12", *given)[2]
            self.assertIn(f"llama3-8b: {lacks}: is missing", error)


class Prices(WithFolder):
    """What is paid: whole nodes and racks, as providers sell them, at prices of a date."""

    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(H100)

    def prices(self, date, devices=8):
        own = self.folder.path / "own" / "topology" / "budget"
        own.mkdir(parents=True, exist_ok=True)
        offer = {"device": "h100-sxm5-80gb", "kind": "on_demand", "provider": "us", "instance": "box", "devices": devices, "instance_hour": 16,
                 "date": date, "source": "a letter"}
        (own / "prices.json").write_text(json.dumps({"currency": "EUR", "offers": [offer]}))
        return {"TANDEM_PRESETS": str(self.folder.path / "own")}

    def test_whole_nodes_and_racks_are_what_is_paid_unless_devices_are_sold_singly(self):
        wide = changed(H100, **{"cluster.preset": "gb300-nvl72", "cluster.devices": 256, "parallel.data": 256, "parallel.zero_stage": 3})
        # 4 racks of 72 devices with 64 in use; then a fifth rack stands by.
        for more, idle, times in (((), 32, 288 / 256), (("--repair", 24, "--spares", 1), 40, 360 / 320)):
            best = plan(self.folder.plan(wide), "--tokens", "1e12", "--price", 2, *more)["best"]
            self.assertEqual(best["idle_devices"], idle)
            self.assertAlmostEqual(best["money"]["value"] / best["money"]["without_idle"]["value"], times)
            self.assertAlmostEqual(best["money"]["without_idle"]["value"],
                                   2 * best["device_hours"]["value"] * (1 + best["spare_devices"] / 256), delta=1)
        half = changed(H100, **{"cluster.devices": 4, "parallel.data": 4, "parallel.zero_stage": 3})
        today = datetime.date.today().isoformat()
        for sold, idle in ((8, 4), (1, 0)):
            code, out, error = run("plan", self.folder.plan(half), "--tokens", "1e9", "--json", environment=self.prices(today, sold))
            self.assertEqual((code, json.loads(out)["best"]["idle_devices"]), (0, idle), error)
        out = run("plan", self.folder.plan(half), "--tokens", "1e9", "--price", 2)[1]
        self.assertIn("for whole nodes; without their 4 idle devices ", out)
        self.assertRegex(out, r"  energy .*, PUE [\d.]+, without the idle devices\n")
        self.assertIn("in 1 node (4 of the 8 devices of it)", out)

    def test_half_a_node_costs_what_the_provider_asks_for_the_instance(self):
        # AWS rents a p5.48xlarge, eight H100, as one: what an hour of it costs is in the list of prices.
        offers = json.loads((SOURCE / "topology" / "budget" / "prices.json").read_text(encoding="utf-8"))["offers"]
        hour = next(o["instance_hour"] for o in offers if o["instance"] == "p5.48xlarge" and o["kind"] == "on_demand")
        asked = ("llama3-8b", "--cluster", "p5.48xlarge", "--devices", "4,8", "--set", "training.global_batch_size=128", "--set",
                 "parallel.zero_stage=3", "--set", "training.recompute=full", "--tokens", "1e11")
        answer = plan(*asked)
        at = {o["layout"]["devices"]: o for o in answer["options"]}
        for devices, share in ((4, 0.5), (8, 1)):
            money = at[devices]["money"]
            self.assertAlmostEqual(money["value"], hour * 24 * at[devices]["days"]["value"], places=3)
            self.assertAlmostEqual(money["without_idle"]["value"], share * money["value"], places=3)
        # Eight devices take about half the time of four, for which the same node is paid: they are best, and alone in a budget between.
        budget = (at[4]["money"]["value"] + at[8]["money"]["value"]) / 2
        self.assertLess(at[4]["money"]["without_idle"]["value"], budget)
        limited = plan(*asked, "--budget", budget)
        self.assertEqual((answer["best"]["layout"]["devices"], limited["best"]["layout"]["devices"], limited["fewest_devices"]), (8, 8, 8))
        # A budget pays for as many days as its share of the money: as probable as being done in those.
        days = at[4]["days"]["value"] * budget / at[4]["money"]["value"]
        of_four = lambda answer, key: next(o[key] for o in answer["options"] if o["layout"]["devices"] == 4)
        self.assertAlmostEqual(of_four(limited, "in_budget"), of_four(plan(*asked, "--days", days), "in_time"))
        rows = [line for line in run("plan", *asked)[1].splitlines() if line.startswith("  devices ") and " x " not in line]
        self.assertEqual([(row.split()[1], "without 4 idle devices" in row) for row in rows], [("8", False), ("4", True)])

    def test_without_prices_plans_rank_as_with_one_price(self):
        asked = ("llama3-8b", "--cluster", "gb300-nvl72", "--devices", "8,72", "--set", "training.global_batch_size=144", "--set",
                 "training.recompute=full", "--tokens", "1e11")
        order = lambda *more: [o["label"] for o in plan(*asked, *more)["options"]]
        self.assertEqual(order(), order("--price", 1))
        self.assertEqual(order()[0], "devices 72")  # a rack is rented for 8 devices, too

    def test_a_budget_that_only_idle_devices_exceed_is_a_warning(self):
        half = self.folder.plan(changed(H100, **{"cluster.devices": 4, "parallel.data": 4, "parallel.zero_stage": 3}))
        money = plan(half, "--tokens", "1e9", "--price", 2)["best"]["money"]["value"]
        for share, warned in ((0.4, False), (0.75, True), (1.25, False)):  # half of the money is for idle devices
            warnings = plan(half, "--tokens", "1e9", "--price", 2, "--budget", share * money, code=5 if share < 1 else 0)["warnings"]
            self.assertEqual(any("only its idle devices, 4 of whole nodes, make the plan cost more" in w for w in warnings), warned, warnings)

    def test_a_job_that_also_fills_whole_racks_is_told_so(self):
        wide = changed(H100, **{"cluster": {"preset": "gb200-nvl72", "devices": 576}, "parallel.data": 576, "training.global_batch_size": 576})
        path = self.folder.plan(wide)
        note = "a part of each node: 9 nodes with 64 of their 72 devices; also 8 full nodes: cluster.override.devices_per_node 72"
        self.assertIn(note, plan(path, "--tokens", "1e12")["warnings"])
        full = plan(self.folder.plan(changed(wide, **{"cluster.override": {"devices_per_node": 72}})), "--tokens", "1e12")
        self.assertEqual((full["best"]["nodes"], full["best"]["idle_devices"]), (8, 0))
        self.assertFalse(any("a part of each node" in w for w in full["warnings"]), full["warnings"])

    def test_an_old_price_is_a_warning_and_a_new_one_none(self):
        old = (datetime.date.today() - datetime.timedelta(days=91)).isoformat()
        for date, warned in ((old, True), (datetime.date.today().isoformat(), False)):
            code, out, _ = run("plan", self.plan, "--tokens", "1e12", environment=self.prices(date))
            self.assertEqual(code, 0)
            self.assertIn(" EUR ", out)
            self.assertEqual("days old" in out, warned)

    def test_storage_goes_by_accelerators_and_spares_by_whole_racks(self):
        # Llama 3, section 3.3.1: 2 TB/s for 16,000 H100. A core of Trainium2 is a quarter of a chip.
        wide = changed(H100, **{"cluster.devices": 256, "parallel.data": 256, "parallel.zero_stage": 3})
        for cluster, devices, per_node, nodes, share in (("dgx-h100", 256, 8, 32, 1), ("gb300-nvl72", 256, 72, 4, 1),
                                                         ("trn2-ultraserver", 256, 256, 1, 4), ("trn2.48xlarge", 256, 64, 4, 4),
                                                         ("trn3-gen1-ultraserver", 256, 256, 1, 4)):
            with self.subTest(cluster=cluster):
                path = self.folder.plan(changed(wide, **{"cluster.preset": cluster, "cluster.devices": devices}))
                best = plan(path, "--tokens", "1e12", "--repair", 24, "--spares", 1)["best"]
                rate = best["checkpoint"]["bytes"] / best["checkpoint"]["save_s"]
                self.assertAlmostEqual(rate / (2e12 / 16000 * devices / share), 1)
                self.assertEqual((best["nodes"], best["devices_per_node"]), (nodes, per_node))
        out = run("plan", self.folder.plan(changed(wide, **{"cluster.preset": "gb300-nvl72"})), "--tokens", "1e12", "--repair", 24, "--spares", 1)[1]
        self.assertIn("in 4 nodes (64 of the 72 devices of each) and 64 spare (1 whole node)", out)

    def test_a_limit_of_money_names_all_clusters_without_a_price_at_once(self):
        clusters = ("gb300-nvl72", "hgx-h20-96gb")
        code, _, error = run("plan", self.plan, "--tokens", "1e12", "--budget", "1e6", "--cluster", ",".join(clusters))
        self.assertEqual(code, 3, error)
        for cluster in clusters:
            self.assertIn(f'"{cluster}"', error)

    def test_the_price_of_a_single_device_is_a_warning_where_nodes_are_needed(self):
        today = datetime.date.today().isoformat()
        for sold, devices, warned in ((1, 16, True), (1, 8, False), (8, 16, False)):
            code, out, _ = run("plan", self.plan, "--tokens", "1e12", "--devices", devices, environment=self.prices(today, sold))
            self.assertEqual(code, 0, out)
            self.assertEqual("is that of single devices" in out, warned, out)


if __name__ == "__main__":
    tandem.main()
