#!/usr/bin/env python3
"""Searches from the command line: changes where nothing fits, and Pareto fronts."""
import json
import re
import time

import tandem
from report_test import Page
from searching import SLOW, Searching
from tandem import SOURCE, changed, run


PATIENT = ("--changes", 600)  # no limit of time ends these


class Changes(Searching):
    """Where nothing fits, beside every changed plan simulated by itself."""
    AXES = {"parallel.tensor": "1", "parallel.pipeline": "1", "parallel.context": "1", "training.micro_batch_size": "2",
            "parallel.schedule": "1f1b", "parallel.virtual_pipeline": "1", "parallel.sequence_parallel": "false",
            "training.recompute": "none", "parallel.zero_stage": "1"}
    AXES_AS_FIELDS = {field: json.loads(value) if value[0] in "0123456789ft" else value for field, value in AXES.items() if value != "1f1b"}
    UNTRIED = {"parallel.tensor": (2, 4), "parallel.pipeline": (2, 4), "training.micro_batch_size": (1, 4, 8),
               "parallel.sequence_parallel": (True,), "training.recompute": ("selective", "full"), "parallel.zero_stage": (0, 2, 3),
               "parallel.offload.optimizer": (True,), "parallel.offload.parameters": (True,)}
    QUESTION = ("llama2-7b", "--cluster", "dgx-a100-80gb", "--devices", 4, "--global-batch", 32, "--seq-length", 4096,
                "--stack", "megatron-core", *PATIENT)

    def simulated(self, changes):
        """(step time, whether it fits) of the question's plan with these fields, None where it cannot be."""
        plan = {"model": {"preset": "llama2-7b"}, "cluster": {"preset": "dgx-a100-80gb", "devices": 4}, "stack": "megatron-core",
                "training": {"seq_length": 4096, "global_batch_size": 32}, "parallel": {"offload": {}}}
        values = {"parallel.tensor": 1, "parallel.pipeline": 1, "training.micro_batch_size": 2, "parallel.sequence_parallel": False,
                  "training.recompute": "none", "parallel.zero_stage": 1, "cluster.devices": 4, "cluster.preset": "dgx-a100-80gb", **changes}
        values["parallel.data"] = values["cluster.devices"] // (values["parallel.tensor"] * values["parallel.pipeline"])
        values["parallel.overlap_grad_reduce"] = values["parallel.data"] > 1  # switched on by the search
        values["parallel.overlap_param_gather"] = values["parallel.data"] > 1 and values["parallel.zero_stage"] > 0
        code, out, _ = run("simulate", self.folder.plan(changed(plan, **values)), "--json")
        if code not in (0, 4) or not out:
            return None
        whole = json.loads(out)
        return whole["step_time_s"], whole["fits"]

    def fastest(self, field, values):
        """The value of a field with the fastest step that fits, and that step; None where none fits."""
        steps = [(self.simulated({field: value}), value) for value in values]
        fitting = [(step[0], value) for step, value in steps if step is not None and step[1]]
        return min(fitting, key=lambda f: f[0], default=None)

    def test_the_changes_are_those_that_simulating_each_finds(self):
        axes = [word for field, value in self.AXES.items() for word in ("--axis", f"{field}={value}")]
        code, out, err = run("search", *self.QUESTION, *axes, "--json")
        self.assertEqual(code, 5, err)
        answer = json.loads(out)
        self.assertEqual(answer["best"], [])
        step, fits = self.simulated({})
        self.assertFalse(fits)
        self.assertEqual(answer["unlimited"]["step_time_s"], step)
        found = {next(iter(c["change"])): c for c in answer["changes"] if len(c["change"].keys() - {"training.recompute_modules"}) == 1}
        for field, values in self.UNTRIED.items():
            expected = self.fastest(field, values)
            self.assertEqual(field in found, expected is not None, (field, expected))
            if field == "training.recompute":  # of all sets of modules, the fastest
                self.assertEqual(self.simulated(found[field]["change"]), (found[field]["step_time_s"], True))
                self.assertLessEqual(found[field]["step_time_s"], expected[0])
            elif expected is not None:
                self.assertEqual((found[field]["step_time_s"], found[field]["change"][field]), expected)
                self.assertAlmostEqual(found[field]["time_over_unlimited"], expected[0] / step - 1)
        self.assertTrue({"training.recompute", "parallel.tensor"} <= set(found), found)
        more = [(devices, self.simulated({"cluster.devices": devices})) for devices in (8, 16, 32, 64, 128, 256)]
        enough = [(devices, one[0]) for devices, one in more if one is not None and one[1]]
        self.assertEqual("cluster.devices" in found, bool(enough))
        if enough:
            self.assertEqual((found["cluster.devices"]["devices"], found["cluster.devices"]["step_time_s"]), enough[0])
        costs = [c["step_time_s"] * c["devices"] for c in answer["changes"]]
        self.assertEqual(costs, sorted(costs))
        for c in answer["changes"]:
            self.assertLessEqual(c["needed_bytes"], c["device_memory_bytes"])

    def test_another_device_has_its_own_memory_where_the_plan_overrides_that_of_its_device(self):
        axes = [word for field, value in self.AXES.items() for word in ("--axis", f"{field}={value}")]
        plan = {"model": {"preset": "llama2-7b"}, "cluster": {"preset": "dgx-a100-80gb", "devices": 4, "override": {}},
                "stack": "megatron-core", "parallel": {}, "training": {"seq_length": 4096, "global_batch_size": 32}}
        words = ("cluster.override.memory_bytes", "cluster.override.memory_bytes_per_s")
        placed = []
        for memory in (None, "60 GiB"):
            override = {words[0]: memory, words[1]: "2.0 TB/s"} if memory else {}
            answer = json.loads(run("search", self.folder.plan(changed(plan, **override)), *axes, "--json", *PATIENT)[1])
            found = [c for c in answer["changes"] if "cluster.preset" in c["change"]]
            self.assertTrue(found, answer["changes"])
            for c in found:
                self.assertEqual({field: c["change"][field] for field in words if field in c["change"]}, dict.fromkeys(override))
                alone = {**self.AXES_AS_FIELDS, **{field: True for field in c["switched_on"]}, "cluster.preset": c["cluster"]}
                _, out, _ = run("simulate", self.folder.plan(changed(plan, **alone)), "--json")
                alone = json.loads(out)
                self.assertTrue(alone["fits"])
                self.assertEqual((c["step_time_s"], c["device_memory_bytes"]), (alone["step_time_s"], alone["device_memory_bytes"]))
                self.assertGreater(c["device_memory_bytes"], answer["device_memory_bytes"])
            placed.append([c["cluster"] for c in found])
        self.assertNotIn("dgx-a100-80gb", placed[1])
        text = run("search", self.folder.plan(changed(plan, **override)), *axes, *PATIENT)[1]
        self.assertIn(", no override.memory_bytes, no override.memory_bytes_per_s ", text)

    def test_attention_without_a_score_matrix_is_a_change(self):
        axes = [word for field, value in self.AXES.items() for word in ("--axis", f"{field}={value}")]
        plan = self.folder.plan({"model": {"preset": "llama2-7b"}, "cluster": {"preset": "dgx-h100", "devices": 16}, "stack": "tandem",
                                 "training": {"seq_length": 4096, "global_batch_size": 32, "flash_attention": False}})
        answer = json.loads(run("search", plan, *axes, "--json", *PATIENT)[1])
        changes = [c for c in answer["changes"] if "training.flash_attention" in c["change"]]
        self.assertTrue(changes, answer["changes"])
        for c in changes:
            self.assertTrue(c["change"]["training.flash_attention"])
            self.assertLessEqual(c["needed_bytes"], c["device_memory_bytes"])

    def test_degrees_that_no_devices_fit_are_told(self):
        place = ("llama3-8b", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 64)
        for axes, said in ((("--axis", "tensor=16"), "tensor 16 needs a multiple of 16 devices"),
                           (("--axis", "pipeline=3,5"), "pipeline 3 or 5 needs a multiple of 3 or 5 devices"),
                           (("--axis", "tensor=4", "--axis", "pipeline=4"), "no tensor x pipeline x context goes into 8 ranks: the least is 16")):
            code, out, _ = run("search", *place, *axes)
            self.assertEqual(code, 5)
            self.assertIn("no layout goes into the number of devices, 8:\n  " + said + "\n", out)
            self.assertNotIn("whatever the memory", out)

    def test_the_text_prices_each_change(self):
        axes = [word for field, value in self.AXES.items() for word in ("--axis", f"{field}={value}")]
        _, out, err = run("search", *self.QUESTION, *axes)
        said = re.search(r"^no layout fits the 79\.\d GiB of each of 4 devices of dgx-a100-80gb; what would fit, the cheapest first: (.*)$", out, re.MULTILINE)
        self.assertIn("recompute full", said[1])
        self.assertIn("tandem: error: llama2-7b: nothing found: " + said[0] + "\n", err)
        self.assertRegex(out, r"time and device time: over the fastest step without a limit of memory, [\d.]+ s with [\d.]+ GiB a device\n")
        self.assertRegex(out, r"recompute full,? .* [\d.]+ s +\+[\d.]+ % +\+[\d.]+ % +[\d.]+ GiB")

    def test_changes_are_tried_for_a_limited_time_after_what_was_asked(self):
        question = ("gpt3-175b", "--cluster", "dgx-a100-80gb", "--devices", 16, "--axis", "tensor=8", "--axis", "micro_batch_size=1",
                    "--axis", "context=1", "--why", "pipeline=2,zero=1,recompute=full")
        code, out, err = run("search", *question, "--changes", 0)
        self.assertEqual(code, 5, err)
        self.assertTrue(out.startswith("why pipeline=2"), out)
        self.assertNotIn("what would fit", out)
        start = time.monotonic()
        run("search", *question, "--changes", 0)
        alone = time.monotonic() - start
        code, out, err = run("search", *question, "--changes", 2)
        self.assertLess(time.monotonic() - start - alone, 3 * alone + 60)  # without a limit it takes minutes
        self.assertEqual(code, 5, err)
        self.assertLess(out.index("why pipeline=2"), out.index("no layout fits"))
        self.assertRegex(out, r"not tried to the end in 2 s: .*; --changes SECONDS tries longer\n")

    def test_two_changes_are_told_where_one_is_not_enough(self):
        axes = {**self.AXES, "parallel.tensor": "1", "training.micro_batch_size": "8", "parallel.zero_stage": "0"}
        plan = self.folder.plan({"model": {"preset": "llama2-7b"}, "cluster": {"preset": "dgx-a100-80gb", "devices": 1},
                                 "training": {"seq_length": 4096, "global_batch_size": 8, "micro_batch_size": 8}})
        words = [word for field, value in axes.items() for word in ("--axis", f"{field}={value}")]
        code, out, err = run("search", plan, *words, "--json", "--any-stack", *PATIENT)
        self.assertEqual(code, 5, err)
        pairs = [c for c in json.loads(out)["changes"] if not next(iter(c["change"])).startswith("cluster.")]
        self.assertTrue(pairs, out)
        self.assertEqual({len(c["change"]) for c in pairs}, {2})


class Pareto(Searching):
    QUESTION = ("gpt-1.3b", "--seq-length", 1024, "--global-batch", 32, "--axis", "schedule=1f1b", "--axis", "virtual_pipeline=1",
                "--axis", "micro_batch_size=1,2", "--axis", "zero=0,1", "--axis", "pipeline=1,2", "--axis", "context=1",
                "--axis", "tensor=1,2,4", "--axis", "sequence_parallel=false", "--axis", "recompute=none,full", "--pareto")
    PLACES = ("--cluster", "dgx-h100,dgx-a100-80gb", "--devices", "8,16")

    def test_no_layout_of_the_front_is_beaten(self):
        answer = self.search(*self.QUESTION, *self.PLACES)
        self.assertEqual(answer["objectives"], ["step_time_s", "needed_bytes", "cost", "energy_kwh"])
        front = [tuple(p[o] for o in answer["objectives"]) for p in answer["pareto"]]
        for one in front:
            self.assertFalse([other for other in front if other != one and all(a <= b for a, b in zip(other, one))], one)
        self.assertEqual(len(set(front)), len(front))
        self.assertEqual(len(answer["spaces"]), 4)
        for space in answer["spaces"]:
            self.assertEqual(sum(space["counts"].values()), space["candidates"])

    def test_cost_and_energy_are_those_of_the_price_and_the_watts(self):
        def watts(device):
            facts = power["devices"][device]
            return (facts["busy_w"]["value"] + facts["host_busy_w"]["value"]) * power["pue"]["value"]

        power = json.loads((SOURCE / "topology" / "budget" / "power.json").read_text(encoding="utf-8"))
        answer = self.search(*self.QUESTION, *self.PLACES, "--price", "dgx-h100=4,dgx-a100-80gb=1.5")
        prices = {"dgx-h100": 4, "dgx-a100-80gb": 1.5}
        kilowatts = {"dgx-h100": watts("h100-sxm5-80gb") / 1000, "dgx-a100-80gb": watts("a100-sxm4-80gb") / 1000}
        for p in answer["pareto"]:
            hours = p["step_time_s"] / 3600 * p["devices"]
            self.assertAlmostEqual(p["cost"], hours * prices[p["cluster"]])
            self.assertAlmostEqual(p["energy_kwh"], hours * kilowatts[p["cluster"]])

    def test_parts_of_nodes_and_racks_cost_what_whole_ones_do(self):
        # AWS rents eight H100 as one p5.48xlarge, CoreWeave 18 trays of a GB200 NVL72 as one rack; prices of these instances.
        offers = json.loads((SOURCE / "topology" / "budget" / "prices.json").read_text(encoding="utf-8"))["offers"]
        hour = lambda instance, kind="on_demand": next(o["instance_hour"] for o in offers if (o["instance"], o["kind"]) == (instance, kind))
        rents = {("p5.48xlarge", 4): hour("p5.48xlarge"), ("p5.48xlarge", 8): hour("p5.48xlarge"), ("p5.48xlarge", 12): 2 * hour("p5.48xlarge"),
                 **{("gb200-nvl72", devices): 18 * hour("GB200 NVL72, a tray") for devices in (4, 8, 12)}}
        rented = {place: 72 if place[0] == "gb200-nvl72" else 16 if place[1] == 12 else 8 for place in rents}
        question = ("llama3-8b", "--cluster", "p5.48xlarge,gb200-nvl72", "--devices", "4,8,12", "--global-batch", 96, "--seq-length", 4096,
                    *(word for axis in ("zero=1", "schedule=1f1b", "recompute=none,full", "tensor=2,4", "pipeline=1", "sequence_parallel=true",
                                           "context=1", "micro_batch_size=1,2")
                      for word in ("--axis", axis)), "--pareto")
        answer = self.search(*question)
        for p in answer["pareto"]:
            place = (p["cluster"], p["devices"])
            self.assertAlmostEqual(p["cost"], p["step_time_s"] / 3600 * rents[place])
            self.assertAlmostEqual(p["cost_without_idle"] / p["cost"], p["devices"] / rented[place])
        self.assertEqual({(s["cluster"], s["devices"]): s["idle_devices"] for s in answer["spaces"]},
                         {place: all_of - place[1] for place, all_of in rented.items()})
        # The cheapest step of each place by itself: that of whole nodes is on the front, one of a part of a rack is not for its cost.
        alone = {}
        for cluster, devices in rents:
            place = ["--cluster", cluster, "--devices", devices] + list(question[5:-1])
            best = self.search("llama3-8b", *place)["best"][0]["step_time_s"]
            alone[cluster, devices] = best / 3600 * rents[cluster, devices]
        cheapest = min(answer["pareto"], key=lambda p: p["cost"])
        self.assertEqual((cheapest["cluster"], cheapest["devices"]), min(alone, key=alone.get))
        self.assertAlmostEqual(cheapest["cost"], min(alone.values()))
        _, out, _ = run("search", *question, "--best", 1000)
        for p in answer["pareto"]:
            place = f" {p['devices']}  *{p['cluster']} "
            self.assertEqual(p["cost"] > p["cost_without_idle"], bool(re.search(r"\(\d+\.\d+\) .*" + place, out)), place)
        self.assertIn("of gb200-nvl72: costs are of whole nodes, in brackets without their ", out)

    def test_the_front_of_places_is_that_of_their_fronts_together(self):
        whole = self.search(*self.QUESTION, *self.PLACES)
        single = [p for cluster in ("dgx-h100", "dgx-a100-80gb") for devices in (8, 16)
                  for p in self.search(*self.QUESTION, "--cluster", cluster, "--devices", devices)["pareto"]]
        figures = {tuple(p[o] for o in whole["objectives"]) for p in single}
        front = {one for one in figures if not any(other != one and all(a <= b for a, b in zip(other, one)) for other in figures)}
        self.assertEqual({tuple(p[o] for o in whole["objectives"]) for p in whole["pareto"]}, front)

    def test_an_objective_that_is_not_known_is_left_out_with_a_word(self):
        answer = self.search(*self.QUESTION[:-1], "--pareto", "--cluster", "dgx-h100", "--devices", 8, "--price-kind", "spot", "--provider", "nobody")
        self.assertEqual(answer["objectives"], ["step_time_s", "needed_bytes", "energy_kwh"])
        self.assertRegex(answer["left_out"][0], "cost is left out: .*no price is known")
        self.assertEqual({p["cost"] for p in answer["pareto"]}, {None})

    def test_a_place_without_a_price_keeps_the_figures_of_the_others(self):
        self.folder.file("slow.json", json.dumps(SLOW))
        question = (*self.QUESTION, "--cluster", f"dgx-h100,{self.folder.path / 'slow.json'}", "--devices", "8")
        code, out, err = run("search", *question, "--json")
        self.assertEqual(code, 0, err)
        answer = json.loads(out)
        self.assertEqual(answer["objectives"], ["step_time_s", "needed_bytes", "cost", "energy_kwh"])
        known = {(p["cluster"] == "dgx-h100", p["cost"] is not None, p["energy_kwh"] is not None) for p in answer["pareto"]}
        self.assertIn((True, True, True), known)
        self.assertLessEqual(known, {(True, True, True), (False, False, False)})
        self.assertEqual(len(answer["left_out"]), 2)
        for line in answer["left_out"]:
            self.assertEqual(err.count(line), 1)
        front = [tuple(float("inf") if p[o] is None else p[o] for o in answer["objectives"]) for p in answer["pareto"]]
        for one in front:  # a place whose cost is not known beats no layout of which it is
            self.assertFalse([other for other in front if other != one and all(a <= b for a, b in zip(other, one))], one)
        alone = self.search(*self.QUESTION, "--cluster", "dgx-h100", "--devices", "8")["pareto"]
        self.assertEqual([p for p in answer["pareto"] if p["cluster"] == "dgx-h100"], alone)
        self.assertNotIn("is left out", run("search", *question)[1])

    def test_the_table_has_the_best_rows_and_counts_the_others(self):
        whole = len(self.search(*self.QUESTION, *self.PLACES)["pareto"])
        rows = len(re.findall(r"^ +\d+  .*dgx-", run("search", *self.QUESTION, *self.PLACES, "--best", 99)[1], re.MULTILINE))
        self.assertTrue(2 < rows <= whole, rows)
        _, out, _ = run("search", *self.QUESTION, *self.PLACES, "--best", 2)
        self.assertRegex(out, r"step +memory +USD a step +Wh a step +devices")
        self.assertRegex(out, r"\n +2 .*\n(all rows: .*\n)?" + f"and {rows - 2} more, slower")
        self.assertEqual(len(self.search(*self.QUESTION, *self.PLACES, "--best", 2)["pareto"]), whole)
        self.assertRegex(run("search", *self.QUESTION, *self.PLACES, "--price", 3)[1], r"memory +cost a step")

    def test_layouts_that_differ_in_recomputation_alone_share_a_row(self):
        question = ["recompute=none,selective,full" if word == "recompute=none,full" else word for word in self.QUESTION]
        question += ["--cluster", "dgx-h100", "--devices", 8, "--best", 99]
        front = self.search(*question)["pareto"]
        of_recomputation = ("training.recompute", "training.recompute_modules")
        groups = {}
        for p in front:
            groups.setdefault(json.dumps({field: value for field, value in p["at"].items() if field not in of_recomputation}), []).append(p)
        self.assertGreater(max(map(len, groups.values())), 1)
        _, out, _ = run("search", *question)
        rows = re.findall(r"^ +\d+  +(.*)  dgx-h100  .*$", out, re.MULTILINE)
        self.assertEqual(len(rows), len(groups), out)
        self.assertEqual(sum(" to " in row for row in rows), sum(len(group) > 1 for group in groups.values()), out)
        self.assertIn("\nall rows: ", out)
        self.assertIn("a to b: layouts that differ in what they compute again alone", out)

    def test_shards_of_a_front_merge_to_the_bytes_of_one_process(self):
        files = [self.path(f"{i}.json") for i in range(2)]
        for i, file in enumerate(files):
            self.assertEqual(run("search", *self.QUESTION, *self.PLACES, "--shard", f"{i}/2", "--keep", file)[0], 0)
        for form in ((), ("--json",)):
            whole = run("search", *self.QUESTION, *self.PLACES, *form)
            self.assertEqual(whole[0], 0)
            self.assertEqual(run("search", *self.QUESTION, *self.PLACES, *form, "--merge", *files)[:2], whole[:2])  # a slow one also tells progress

    def test_the_page_has_the_figures_of_the_front_and_asks_nothing(self):
        page = self.path("page.html")
        answer = self.search(*self.QUESTION, *self.PLACES, "--html", page)
        made = Page(page)
        self.assertEqual(made.asked, [])
        drawn = json.loads(made.data)
        self.assertEqual(drawn["pareto"], answer["pareto"])
        self.assertTrue(drawn["others"])
        self.assertIn("Pareto front", made.title)
        self.assertEqual({drawn["currency"]}, {s["currency"] for s in answer["spaces"]})
        self.assertEqual(drawn["currency"], "USD")
        self.assertIn("number(v)} ${data.currency}", made.text)

    def test_several_places_need_a_front(self):
        for arguments, code, said in ((self.PLACES, 3, "add --pareto"), (("--cluster", "dgx-h100", "--devices", 8, "--html", "x.html"), 2, "--pareto"),
                                      (("--cluster", "dgx-h100", "--devices", 8, "--price", 3), 2, "--pareto")):
            got, _, err = run("search", *self.QUESTION[:-1], *arguments)
            self.assertEqual(got, code, err)
            self.assertIn(said, err)


if __name__ == "__main__":
    tandem.main()
