#!/usr/bin/env python3
"""Pages: one file each, with the program's own figures in them and no request to anywhere."""
import html.parser
import json
import pathlib
import re

import tandem
from studies import STUDY
from tandem import SMALL, TEXT, WithFolder, changed, run, shown, tandem_json


class Page(html.parser.HTMLParser):
    """What a page asks for, the data in it, and the text that its script draws."""

    def __init__(self, path):
        super().__init__()
        self.text = pathlib.Path(path).read_text(encoding="utf-8")
        self.asked, self.data, self.title, self._in = [], "", "", None
        self.feed(self.text)
        self.shown = shown(path)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.asked += [value for key, value in attrs if key in ("src", "href", "srcset", "action", "data") and not (value or "").startswith("data:")]
        self._in = "data" if attributes.get("id") == "data" else tag

    def handle_endtag(self, tag):
        self._in = None

    def handle_data(self, data):
        if self._in == "data":
            self.data += data
        if self._in == "title":
            self.title += data


class Report(WithFolder):
    def test_a_plan_without_a_name_is_called_after_its_file(self):
        plan, out = self.folder.plan(changed(SMALL, name=None), "mine.json"), self.path("page.html")
        self.assertEqual(run("report", plan, "--out", out)[0], 0)
        self.assertEqual(Page(out).title, "mine – Tandem")
        self.assertTrue(run("simulate", plan)[1].splitlines()[1].startswith("mine, "))

    def page(self, subject, *arguments):
        out = self.folder.path / "pages" / "page.html"
        code, said, err = run("report", subject, "--out", out, *arguments)
        self.assertEqual((code, said), (0, f"{out}\n"), err)
        page = Page(out)
        self.assertEqual(page.asked, [])
        for way_out in ("fetch(", "XMLHttpRequest", "@import", "url(", "importScripts"):
            self.assertNotIn(way_out, page.text)
        return page, json.loads(page.data)

    def test_a_plans_page_holds_what_simulate_says(self):
        plan = self.folder.plan(SMALL)
        _, data = self.page(plan)
        alone = tandem_json("simulate", plan)
        for key in ("step_time_s", "mfu", "peak_memory_bytes", "time_breakdown_s"):
            self.assertEqual(data["prediction"][key], alone[key])
        self.assertEqual(data["plan"], alone["plan"])
        self.assertTrue(any("memory_bytes_per_s" in fact for fact in data["unverified"]))
        self.assertTrue(any("matmul.ceiling" in fact for fact in data["unverified"]))  # the calibration's, too

    def test_a_plans_page_shows_the_memory_that_simulate_shows(self):
        plan = self.folder.plan({"stack": "megatron-core", "model": {"preset": "llama3-8b"}, "cluster": {"preset": "dgx-h100", "devices": 16},
                                 "parallel": {"pipeline": 8, "data": 2, "zero_stage": 1},
                                 "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 16, "recompute": "full"}})
        page, data = self.page(plan)
        alone = tandem_json("simulate", plan)
        self.assertLess(alone["needed_bytes"], 0.98 * alone["peak_memory_bytes"])  # so that the page cannot show either
        needed = re.search(r"memory of rank (\d+), which needs most: (\S+ GiB) ", run("simulate", plan)[1])
        most = data["roles"][str(data["neediest_role"])]
        self.assertEqual((most["first_rank"], most["needed_bytes"]), (int(needed[1]), alone["needed_bytes"]))
        for text in (f"{needed[2]}", f"{most['label']}: {needed[2]}, the most"):
            self.assertIn(text, page.shown)

    def test_a_page_counts_the_memory_of_all_ranks_that_share_a_device(self):
        shared = self.folder.plan(changed(SMALL, cluster={"preset": "cpu-host", "devices": 2, "override": {"ranks_per_device": 4}}))
        page, _ = self.page(shared)
        together = re.search(r"the 4 ranks that share a device need (\S+ \S+) of its (\S+ \S+), fits", run("simulate", shared)[1])
        self.assertRegex(page.shown, rf"{re.escape(together[1])}\s+of {re.escape(together[2].removesuffix('.00 GiB'))}\S* GiB per device, which 4 ranks share")
        self.assertIn("Bytes of one rank by kind", page.shown)
        self.assertIn("a rank's share of one CPU core: 1 GiB", page.shown)

    def test_a_page_says_that_the_bubble_is_without_launches_where_simulate_does(self):
        whole = {"model": {"preset": "llama3-8b"}, "cluster": {"preset": "dgx-h100", "devices": 8}, "parallel": {"data": 8, "zero_stage": 3},
                 "training": {"seq_length": 8192, "micro_batch_size": 1, "global_batch_size": 16, "recompute": "full"}}
        tiny = changed(SMALL, **{"cluster": {"preset": "dgx-h100", "devices": 8}, "training.precision": "bf16"})
        for plan, expected in ((whole, False), (tiny, True)):
            file, words = self.folder.plan(plan), "(excluding waits for host launches)"
            page, _ = self.page(file)
            self.assertEqual((words in page.shown, words in run("simulate", file)[1]), (expected, expected))

    def test_a_role_is_labelled_by_its_ranks(self):
        for changes, labels in (({"parallel": {"data": 8}, "cluster": {"preset": "dgx-h100", "devices": 8}}, {"ranks 0 to 7, all alike"}),
                                ({"cluster": {"preset": "dgx-h100", "devices": 8}}, {"ranks 0 to 3, all alike", "ranks 4 to 7, all alike"})):
            _, data = self.page(self.folder.plan(changed(SMALL, **changes, **{"training.precision": "bf16"})))
            self.assertEqual({role["label"].split(" (")[0] for role in data["roles"].values()}, labels)

    def test_every_share_of_a_steps_time_has_a_colour_of_its_own(self):
        page, data = self.page(self.folder.plan(SMALL))
        shares = len(data["prediction"]["time_breakdown_s"])
        self.assertEqual(page.text.count("--paper:"), 2)
        for scheme in page.text.split("--paper:")[1:]:  # light and dark
            colours = dict(re.findall(r"--c(\d+): (#\w+)", scheme.split("--heat0")[0]))
            self.assertGreaterEqual(len(set(colours.values())), shares)
            self.assertIn(f"const COLOURS = {len(colours)};", page.text)

    def test_the_timeline_of_a_page_is_that_of_the_simulation(self):
        plan = self.folder.plan(SMALL)
        _, data = self.page(plan)
        saved = self.folder.path / "timeline.json"
        self.assertEqual(run("simulate", plan, "--timeline", saved)[0], 0)
        spans = sum(len(lane["spans"]) for lane in json.loads(saved.read_text())["lanes"])
        boxes = sum(len(s["boxes"]) for lane in data["timeline"]["lanes"] for s in lane["streams"])
        self.assertFalse(data["timeline"]["merged"])
        self.assertEqual(boxes, spans)

    def test_long_timelines_are_drawn_in_fewer_boxes_that_cover_the_same_step(self):
        _, data = self.page(self.folder.plan(changed(SMALL, **{"training.global_batch_size": 4096})))
        self.assertTrue(data["timeline"]["merged"])
        boxes = [b for lane in data["timeline"]["lanes"] for s in lane["streams"] if s["stream"] == "compute" for b in s["boxes"]]
        self.assertLess(len(boxes), 60_000)
        self.assertLessEqual(max(b[0] + b[1] for b in boxes), data["timeline"]["step_ns"] + 1)
        self.assertGreater(max(b[0] + b[1] for b in boxes), 0.9 * data["timeline"]["step_ns"])

    def test_the_curve_of_memory_reaches_the_peak(self):
        _, data = self.page(self.folder.plan(SMALL))
        for role in data["roles"].values():
            runtime = role["memory_bytes"]["runtime"]
            live = max(sum(sample[1:]) for sample in role["memory_over_time"])
            self.assertGreaterEqual(role["peak_memory_bytes"], live)  # the arena holds it all
            self.assertGreaterEqual(live, 0.9 * sum(role["memory_bytes"].values()))  # streams overlap: not quite the issue order's peak
            self.assertTrue(all(sample[-1] == runtime for sample in role["memory_over_time"]))

    def test_names_cannot_end_a_script_or_become_tags(self):
        name = "</script><img src=x onerror=alert(1)>"
        page, data = self.page(self.folder.plan(changed(SMALL, name=name)))
        self.assertEqual(data["name"], name)
        self.assertNotIn("<img", page.text)

    def test_names_may_have_the_marks_of_the_template_in_them(self):
        name = "@data@ of @script@ in @style@"
        page, data = self.page(self.folder.plan(changed(SMALL, name=name)))
        self.assertEqual(data["name"], name)
        self.assertIn(name, page.title)

    def test_a_studys_page_holds_its_rows_and_points(self):
        study = self.folder.file("study.json", json.dumps(STUDY))
        out = self.folder.path / "out"
        self.assertEqual(run("sweep", study, "--out", out)[0], 0)
        page, data = self.page(out)
        rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        self.assertEqual([dict(row, key=None) for row in data["rows"]], [{k: v for k, v in dict(row, key=None).items() if k != "checksum"} for row in rows])
        self.assertEqual(data["study"]["points"], STUDY["points"])
        self.assertIn("small", page.title)

    def test_a_study_is_drawn_beside_published_figures(self):
        out = self.folder.path / "out"
        self.assertEqual(run("sweep", tandem.SOURCE / "experiments" / "studies" / "megatron-weak-scaling" / "study.json", "--out", out)[0], 0)
        page, _ = self.page(out)
        self.assertIn("Vertical lines hold 80 % of outcomes. Crosses are published figures.", page.shown)

    def test_a_study_counts_the_memory_of_all_ranks_that_share_a_device(self):
        shared = changed(SMALL, cluster={"preset": "cpu-host", "devices": 2, "override": {"ranks_per_device": 4}})
        study = self.folder.file("study.json", json.dumps({"name": "shared", "base": shared, "axes": [{"field": "training.micro_batch_size", "values": [1]}]}))
        out = self.folder.path / "out"
        code, told, err = run("sweep", study, "--out", out)
        self.assertEqual(code, 0, err)
        row = json.loads((out / "results.jsonl").read_text())
        alone = tandem_json("simulate", self.folder.plan(changed(shared, **{"training.micro_batch_size": 1})))
        self.assertEqual(row["needed_bytes"], 4 * alone["needed_bytes"])
        self.assertIn(re.search(r"the 4 ranks that share a device need (\S+ \S+) of its", run("simulate", self.path("plan.json"))[1])[1], told)

    def test_a_study_of_impossible_plans_does_not_blame_the_memory(self):
        study = self.folder.file("study.json", json.dumps({"name": "none", "base": SMALL, "axes": [{"field": "training.micro_batch_size", "values": [4096]}]}))
        out = self.folder.path / "out"
        self.assertIn("none: 1 plan, 1 computed", run("sweep", study, "--out", out)[1])
        page, _ = self.page(out)
        self.assertIn("No plan of this study can be: the table of all plans has the reasons.", page.shown)
        self.assertNotIn("Drawn:", page.shown)

    def timelines(self):
        plan, run_file, sim_file = self.folder.plan(SMALL), self.path("run.json"), self.path("sim.json")
        out = tandem_json("train", plan, "--data", TEXT, "--steps", 4, "--eval-every", 2, "--timeline", run_file)
        self.assertEqual(run("simulate", plan, "--timeline", sim_file)[0], 0)
        return run_file, sim_file, out

    def test_a_runs_page_holds_what_the_training_said(self):
        run_file, sim_file, out = self.timelines()
        page, data = self.page(run_file)
        self.assertEqual(page.title, "small – Tandem")
        side, = data["sides"]
        self.assertEqual(side["performer"], "measured")
        for key in ("loss", "grad_norm", "learning_rate", "step_time_s"):
            self.assertEqual([s[key] for s in side["run"]["steps"]], [s[key] for s in out["steps"]])
        self.assertEqual(side["run"]["evaluations"], out["evaluations"])
        self.assertEqual(side["run"]["peak_memory_bytes"], out["peak_memory_bytes"])
        self.assertEqual(side["run"]["kept_step"], 3)
        self.assertEqual(max(r["arena_bytes"] for r in side["roles"].values()), out["arena_bytes"])
        self.assertEqual(len(side["roles"]), 8)
        for role in side["roles"].values():
            self.assertAlmostEqual(sum(role["time_shares_s"].values()), side["step_time_s"], places=9)
            # What lives is drawn for whole instances, and in a real run these overlap a little differently each time: the curve's peak
            # may pass the arena's. What stays when all is done, the run's own memory, cannot, and nothing is below it.
            live = [sum(sample[1:]) for sample in role["memory_over_time"]]
            self.assertTrue(0 < live[-1] == min(live) < max(live) and live[-1] <= role["arena_bytes"], live)
        spans = sum(len(lane["spans"]) for lane in json.loads(pathlib.Path(run_file).read_text())["lanes"])
        self.assertEqual(sum(len(s["boxes"]) for lane in side["timeline"]["lanes"] for s in lane["streams"]), spans)
        _, data = self.page(sim_file)
        self.assertIsNone(data["sides"][0]["run"])
        self.assertEqual(data["sides"][0]["performer"], "predicted")
        self.assertEqual(run("report", run_file, "--cost-table", "x.json")[0], 3)

    def test_the_page_of_a_file_of_metrics_holds_its_losses(self):
        metrics, saved = self.folder.path / "m.jsonl", self.folder.path / "saved"
        told = tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 4, "--eval-every", 2, "--metrics", metrics, "--save", saved)
        metrics.write_text(metrics.read_text() + '{"step": 4, "lo')  # a line that a kill cut off
        page, data = self.page(metrics)
        self.assertEqual(page.title, "m – Tandem")
        self.assertIn("lineChart(curves", page.text)
        for key in ("step", "loss", "grad_norm", "learning_rate", "skipped"):
            self.assertEqual([s[key] for s in data["steps"]], [s[key] for s in told["steps"]])
        self.assertEqual(data["evaluations"], told["evaluations"])
        elapsed = [line["elapsed_s"] for line in map(json.loads, metrics.read_text().splitlines()[:-1]) if "elapsed_s" in line]
        self.assertEqual(data["elapsed_s"], elapsed[-1])
        resumed = self.folder.file("resumed.jsonl", "".join(
            json.dumps({"step": i, "loss": 1, "tokens": 8, "step_time_s": 3, "elapsed_s": t}) + "\n" for i, t in enumerate((3, 6.5, 3, 7, 7.5))))
        self.assertEqual(self.page(resumed)[1]["elapsed_s"], 6.5 + 7 + 7.5)  # two runs went on from the first one
        metrics.write_text(metrics.read_text().replace('"step":2', '"stop":2') + "\n")
        code, out, err = run("report", metrics)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("m.jsonl: line 4 = ", err)
        for place in (saved, saved / "step-00000004", next(saved.glob("*/*.safetensors"))):
            code, out, err = run("report", place)
            self.assertEqual((code, out), (3, ""), place)
            self.assertIn("holds weights, as `train --save` writes them", err)

    def test_a_comparisons_page_holds_what_compare_says(self):
        run_file, sim_file, _ = self.timelines()
        out = self.path("compared.html")
        alone = tandem_json("compare", sim_file, run_file)
        self.assertEqual(tandem_json("compare", sim_file, run_file, "--html", out), alone)
        page = Page(out)
        self.assertEqual(page.asked, [])
        data = json.loads(page.data)
        self.assertEqual(data["comparison"], alone)
        self.assertEqual([s["what"] for s in data["sides"]], ["measured", "predicted"])
        self.assertEqual({line["what"] for line in alone["operations"]} & {"block_forward: qkv", "block_backward: qkv_dgrad"},
                         {"block_forward: qkv", "block_backward: qkv_dgrad"})
        for key in ("executed_s", "simulated_s"):
            self.assertAlmostEqual(sum(line[key] for line in alone["operations"]), sum(line[key] for line in alone["kinds"]), places=9)
        shown = {rank for r in data["sides"][1]["roles"].values() for rank in r["ranks"]}
        self.assertEqual(shown, set(range(8)))
        code, _, _ = run("compare", run_file, run_file, "--html", out)
        self.assertEqual(code, 0)
        self.assertEqual([s["what"] for s in json.loads(Page(out).data)["sides"]], ["baseline", "new"])
        self.assertEqual([row["rank"] for row in data["rows"]], list(range(8)))
        before = pathlib.Path(run_file).read_bytes()
        self.assertEqual(run("compare", sim_file, run_file, "--html", run_file)[0], 3)
        self.assertEqual(pathlib.Path(run_file).read_bytes(), before)

    def test_a_comparisons_page_shows_a_rank_that_became_slow(self):
        plan = self.folder.plan(changed(SMALL, **{"cluster.preset": "dgx-a100-80gb"}))
        before, after, out = self.path("before.json"), self.path("after.json"), self.path("slow.html")
        slow = json.dumps({"slow_devices": [{"rank": 5, "factor": 0.5}]})
        for timeline, more in ((before, ()), (after, ("--perturb", slow))):
            self.assertEqual(run("simulate", plan, "--timeline", timeline, *more)[0], 0)
        said = tandem_json("compare", after, before, "--html", out)
        self.assertEqual(said["ranks"][0]["what"], "rank 5")
        self.assertAlmostEqual(said["ranks"][0]["new_s"], 2 * said["ranks"][0]["baseline_s"], delta=0.01 * said["ranks"][0]["new_s"])
        rows = json.loads(Page(out).data)["rows"]
        self.assertEqual([row["label"].partition(" (")[0] for row in rows if row["rank"] == 5], ["rank 5"])

    def test_other_subjects_are_refused(self):
        empty = self.folder.path / "empty"
        empty.mkdir()
        code, out, err = run("report", empty)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("tandem sweep", err)
        self.assertEqual(run("report", self.folder.path / "none.json")[0], 3)
        code, out, err = run("report", self.folder.file("study.json", json.dumps(STUDY)))
        self.assertEqual((code, out, err.count("\n")), (3, "", 1))
        self.assertIn("run tandem sweep on it", err)
        printed = self.folder.file("printed.json", run("simulate", self.folder.plan(SMALL), "--json")[1])
        code, out, err = run("report", printed)
        self.assertEqual((code, out, err.count("\n")), (3, "", 1))
        self.assertIn("train --timeline", err)
        self.assertEqual(run("report")[0], 2)


if __name__ == "__main__":
    tandem.main()
