#!/usr/bin/env python3
"""Studies: every plan becomes a row, bad study files are refused in one line."""
import csv
import fcntl
import itertools
import json

import tandem
from studies import STUDY, Studies
from tandem import SMALL, SOURCE, changed, run, tandem_json


class Sweep(Studies):
    def test_every_combination_is_a_row_in_the_order_of_the_study(self):
        self.sweep(self.study(), "--jobs", 3)
        self.assertEqual([tuple(row["at"].values()) for row in self.rows()],
                         [(t, b) for t in (1, 2, 3) for b in (8, "large")])

    def test_a_row_says_what_simulate_says_of_the_same_plan(self):
        self.sweep(self.study())
        row = self.rows()[3]  # tensor 2, large
        alone = tandem_json("simulate", self.folder.plan(changed(SMALL, **{
            "parallel.tensor": 2, "parallel.data": 2, "training.global_batch_size": 32, "training.micro_batch_size": 2})))
        for key in ("step_time_s", "tokens_per_s", "peak_memory_bytes", "mfu", "time_breakdown_s", "fits"):
            self.assertEqual(row[key], alone[key], key)
        self.assertEqual((row["status"], row["layout"]["data"]), ("ok", 2))

    def test_an_axis_names_a_field_by_its_older_or_present_name_whichever_the_base_has(self):
        steps = []
        fields = ("training.recompute_products", "training.recompute_every_second_matmul")
        for base, axis in itertools.product(fields, fields):
            given = {"axes": [{"field": axis, "values": [True, False]}], "points": None, "view": None}
            recompute = {"base.training.recompute": "selective", "base.training.recompute_modules": ["operations"], "base." + base: True}
            self.out = self.folder.path / f"{base}-{axis}"
            self.sweep(self.study(**given, **recompute))
            self.assertEqual([row["at"][axis] for row in self.rows()], [True, False])
            steps.append([row["step_time_s"] for row in self.rows()])
        self.assertEqual(steps, [steps[0]] * 4)
        self.assertGreater(steps[0][0], steps[0][1])
        both = [{"field": f, "values": [True, False]} for f in fields]
        code, _, err = run("sweep", self.study(axes=both, points=None, view=None), "--out", self.out)
        self.assertEqual((code, "there is another axis of this name" in err), (3, True), err)

    def test_a_plan_that_cannot_be_is_a_row_with_its_reason(self):
        result = self.sweep(self.study())
        refused = self.rows()[4]
        self.assertEqual(refused["status"], "infeasible")
        self.assertIn("no multiple of tensor x pipeline", refused["reason"])
        self.assertEqual(result["by_status"], {"ok": 4, "infeasible": 2})

    def test_a_plan_too_large_is_predicted_and_marked(self):
        study = self.study(**{"base.model.hidden_size": 24 * 1024, "base.model.ffn_hidden_size": 4 * 24 * 1024, "base.model.num_layers": 4})
        code, out, err = run("sweep", study, "--out", self.out, "--json")
        self.assertEqual(code, 5)
        result = json.loads(out)
        self.assertIsNone(result["best"])
        least = min((r for r in self.rows() if r["status"] == "too large"), key=lambda r: r["needed_bytes"] / r["device_memory_bytes"])
        self.assertEqual(result["nearest"], least)
        self.assertIn("no plan of this study fits its devices; nearest is parallel.tensor ", err)
        self.assertEqual({r["status"] for r in self.rows() if r["at"]["parallel.tensor"] < 3}, {"too large"})
        self.assertGreater(self.rows()[0]["step_time_s"], 0)

    def test_a_study_of_plans_that_cannot_be_has_found_nothing_and_says_why(self):
        code, out, err = run("sweep", self.study(axes=[{"field": "parallel.tensor", "values": [3]}], points=None, view=None), "--out", self.out)
        self.assertEqual(code, 5)
        self.assertIn("no multiple of tensor x pipeline", out)
        self.assertIn("no plan of this study can be: ", err)

    def test_a_goal_tells_days_device_hours_and_cost_and_ranks_by_them(self):
        price = {"cpu-host": 0.5}
        result = self.sweep(self.study(goal={"tokens": 1e9, "goodput": 0.5, "device_hour_price": price}))
        rows = [r for r in self.rows() if r["status"] == "ok"]
        for row in rows:
            self.assertAlmostEqual(row["training_days"] * 86400 * row["tokens_per_s"] * 0.5, 1e9, delta=1)
            self.assertAlmostEqual(row["device_hours"], row["training_days"] * 24 * 8)
            self.assertAlmostEqual(row["cost"], row["device_hours"] * 0.5)
            self.assertNotIn("in_time", row)
        self.assertEqual(result["best"], min(rows, key=lambda r: r["cost"]))
        header = (self.out / "results.csv").read_text().splitlines()[0].split(",")
        self.assertLessEqual({"training_days", "device_hours", "cost"}, set(header))
        # another goal of the same plans: nothing is simulated anew, and nothing of the old one stays
        days = sorted(r["training_days"] / 2 for r in rows)
        limit = (days[0] + days[1]) / 2
        result = self.sweep(self.study(goal={"tokens": 1e9, "days": limit}))
        self.assertEqual(result["computed"], 0)
        self.assertEqual([r["in_time"] for r in self.rows() if r["status"] == "ok"].count(True), 1)
        self.assertNotIn("cost", result["best"])
        self.assertLessEqual(result["best"]["training_days"], limit)
        code, out, err = run("sweep", self.study(goal={"tokens": 1e9, "days": days[0] / 2}), "--out", self.out, "--json")
        self.assertEqual(code, 5)
        self.assertIsNone(json.loads(out)["best"])
        self.assertEqual(json.loads(out)["nearest"], min((r for r in self.rows() if r["status"] == "ok"), key=lambda r: r["training_days"]))
        self.assertIn("the fastest is", err)
        # and none: nothing of it stays either
        result = self.sweep(self.study())
        self.assertEqual(result["computed"], 0)
        for row in self.rows():
            self.assertFalse({"training_days", "device_hours", "in_time", "cost"} & set(row), row)

    def test_cost_is_that_of_whole_nodes_as_plan_has_it(self):
        base = {"model": {"preset": "llama3-8b"}, "stack": "megatron-core", "parallel": {"zero_stage": 3}, "cluster": {"preset": "dgx-h100", "devices": 8},
                "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 48, "recompute": "full"}}
        study = lambda name, devices: self.folder.file(name, json.dumps({
            "name": "nodes", "base": base, "fill": "parallel.data", "axes": [{"field": "cluster.devices", "values": devices}],
            "goal": {"tokens": 1e9, "device_hour_price": 2}}))
        self.sweep(study("nodes.json", [4, 8, 12]))
        for row, nodes in zip(self.rows(), (1, 1, 2)):
            self.assertAlmostEqual(row["cost"], row["training_days"] * 24 * nodes * 8 * 2)
            self.assertAlmostEqual(row["cost_without_idle"], row["training_days"] * 24 * row["layout"]["devices"] * 2)
            self.assertEqual(row["idle_devices"], nodes * 8 - row["layout"]["devices"])
        half = study("half.json", [4])
        row = tandem_json("sweep", half, "--out", self.path("half"))["best"]
        best = tandem_json("plan", self.folder.plan(changed(base, **{"cluster.devices": 4})), "--tokens", 1e9, "--price", 2, "--goodput", 1)["best"]
        self.assertLess(abs(best["money"]["value"] / row["cost"] - 1), 0.01)  # plan has whole steps
        text = run("sweep", half, "--out", self.path("half"))[1]
        self.assertRegex(text, r"device hours, cost [\d,]+ \([\d,]+ without 4 idle devices\)")

    def test_days_have_the_range_of_the_step_and_a_goal_inside_it_is_no_promise(self):
        self.sweep(self.study(goal={"tokens": 1e9}))
        best = min((r for r in self.rows() if r["status"] == "ok"), key=lambda r: r["device_hours"])
        days, low, high = (best["training_days" + end] for end in ("", "_low", "_high"))
        self.assertAlmostEqual(low / days, best["step_time_low_s"] / best["step_time_s"])
        self.assertAlmostEqual(high / days, best["step_time_high_s"] / best["step_time_s"])
        between = (days + high) / 2
        for goal, late in ((between, True), (2 * high, False)):
            text = run("sweep", self.study(goal={"tokens": 1e9, "days": goal}), "--out", self.out)[1]
            line = next(line for line in text.splitlines() if line.startswith("best: "))
            self.assertIn(f"{days:.1f} days ({low:.1f} to {high:.1f}", line)
            self.assertEqual(f": may take more than {goal:.1f})" in line, late, line)

    def test_the_summary_says_what_no_record_has(self):
        text = run("sweep", self.study(), "--out", self.out)[1]
        row = next(r for r in self.rows() if r["status"] == "ok")
        self.assertTrue(row["step_time_wider"], row)  # no published run is on processors
        self.assertEqual(len([line for line in text.splitlines() if line.startswith("beyond the records, the best")]), 1, text)
        self.assertIn(": " + row["step_time_wider"], text)

    def test_the_largest_goal_has_finite_results(self):
        result = self.sweep(self.study(goal={"tokens": 1e18, "goodput": 1e-3, "device_hour_price": 1e9}))
        self.assertGreater(result["best"]["cost"], 1e18)
        _, out, _ = run("sweep", self.study(goal={"tokens": 1e18, "goodput": 1e-3, "device_hour_price": 1e9}), "--out", self.out)
        self.assertNotIn("cost -", out)

    def test_a_users_own_cluster_is_priced_by_the_name_of_its_file(self):
        cluster = json.loads((SOURCE / "topology" / "presets" / "dgx-a100-80gb.json").read_text())
        (self.folder.path / "own").mkdir()
        self.folder.file("own/mine.json", json.dumps(cluster))
        base = changed(SMALL, **{"cluster.preset": "./mine.json", "stack": "megatron-core", "training.precision": "bf16"})
        self.folder.file("own/plan.json", json.dumps(base))
        study = {"base": "plan.json", "axes": [{"field": "training.global_batch_size", "values": [8, 16]}],
                 "goal": {"tokens": 1e9, "device_hour_price": {"./mine.json": 2}}}
        result = self.sweep(self.folder.file("own/study.json", json.dumps(study)))
        self.assertAlmostEqual(result["best"]["cost"], 2 * result["best"]["device_hours"])

    def test_goals_that_say_too_little_are_refused_by_field(self):
        for goal, said in (({}, "goal.tokens"), ({"tokens": 0}, "goal.tokens"), ({"tokens": 1e9, "day": 3}, "goal.day"), (3, "goal = 3"),
                           ({"tokens": 1e9, "goodput": 2}, "goal.goodput"), ({"tokens": 1e9, "days": -1}, "goal.days"),
                           ({"tokens": 1e19}, "goal.tokens"), ({"tokens": 1e9, "goodput": 1e-4}, "goal.goodput"),
                           ({"tokens": 1e9, "device_hour_price": 1e10}, "goal.device_hour_price = "),
                           ({"tokens": 1e9, "device_hour_price": {}}, "no price for cpu-host"),
                           ({"tokens": 1e9, "device_hour_price": {"cpu-host": "2"}}, "device_hour_price.cpu-host"),
                           ({"tokens": 1e9, "device_hour_price": {"dgx-h100": 2, "cpu-host": 1}}, "they are on cpu-host")):
            code, out, err = run("sweep", self.study(goal=goal), "--out", self.out)
            self.assertEqual((code, out), (3, ""), goal)
            self.assertIn(said, err)

    def test_the_csv_has_the_rows_of_the_jsonl(self):
        self.sweep(self.study())
        with open(self.out / "results.csv", newline="", encoding="utf-8") as file:
            table = list(csv.DictReader(file))
        for row, line in zip(self.rows(), table, strict=True):
            self.assertEqual(line["batch"], str(row["at"]["batch"]))
            self.assertEqual(line["reason"], row["reason"])
            if "step_time_s" in row:
                self.assertEqual(float(line["step_time_s"]), row["step_time_s"])
                self.assertEqual(float(line["time_breakdown_s.compute"]), row["time_breakdown_s"]["compute"])

    def test_published_points_stand_beside_their_predictions(self):
        result = self.sweep(self.study())
        row = self.rows()[0]
        (point,) = result["published"]
        self.assertEqual((point["published"], point["predicted"]), (1.5, row["step_time_s"]))
        self.assertAlmostEqual(point["error"], row["step_time_s"] / 1.5 - 1)

    def test_data_ranks_left_out_follow_the_devices_of_every_point(self):
        axes = [{"field": "cluster.devices", "values": [4, 6, 8, 16]}]
        result = self.sweep(self.study(fill=None, axes=axes, points=None, view=None, **{"base.training.global_batch_size": 24}))
        self.assertEqual([r.get("layout", {}).get("data") for r in self.rows()], [1, None, 2, 4])
        self.assertIn("does not divide", self.rows()[1]["reason"])
        self.assertEqual(result["computed"], 4)

    def test_the_fill_of_devices_is_the_product_of_the_degrees(self):
        self.sweep(self.study(**{"fill": "cluster.devices", "base.cluster.devices": None, "base.parallel.data": 2}))
        self.assertEqual([r["layout"]["devices"] for r in self.rows() if "layout" in r], [4, 4, 8, 8])

    def test_one_and_several_threads_write_the_same_bytes(self):
        files = ("results.jsonl", "results.csv", "study.json")
        self.sweep(self.study(), "--jobs", 1)
        alone = [(self.out / f).read_bytes() for f in files]
        self.sweep(self.study(), "--jobs", 4, "--fresh")
        self.assertEqual(alone, [(self.out / f).read_bytes() for f in files])


class BadStudies(Studies):
    def refusal(self, content):
        path = self.folder.file("bad.json", content if isinstance(content, str) else json.dumps(content))
        code, out, err = run("sweep", path, "--out", self.out)
        self.assertEqual((code, out), (3, ""), err)
        self.assertRegex(err, r"\Atandem: error: [^\n]+\n\Z")
        self.assertFalse(self.out.exists())
        return err

    def test_every_mistake_is_named_with_its_field(self):
        axis = STUDY["axes"][0]
        point = STUDY["points"][0]
        for changes, words in (
            ({"axes": None}, ["axes", "is missing"]),
            ({"axes": []}, ["axes", "list"]),
            ({"axes": [{"field": "parallel.tensr", "values": [1]}]}, ["axes[0].field", 'did you mean "parallel.tensor"?']),
            ({"axes": [{"field": "parallel.tensor", "values": []}]}, ["axes[0].values"]),
            ({"axes": [{"field": "parallel.tensor", "values": [2, 2]}]}, ["axes[0].values[1]", "twice"]),
            ({"axes": [axis, axis]}, ["axes[1]", "another axis"]),
            ({"axes": [{"field": "parallel.tensor", "name": "x", "values": [1]}]}, ["axes[0]", "either field or name"]),
            ({"axes": [{"name": "x", "values": [{"label": "a", "set": {"trainin.seed": 1}}]}]}, ["axes[0].values[0].set", "training"]),
            ({"axes": [{"field": "training.seed", "values": list(range(400))}, {"field": "training.steps", "values": list(range(1, 400))}], "points": None, "view": None},
             ["axes", "more than 100000"]),
            ({"points": [changed(point, source=None)]}, ["points[0].source", "is missing"]),
            ({"points": [changed(point, name=3)]}, ["points[0].name = 3", "must be a string"]),
            ({"points": [changed(point, step_time_s=None)]}, ["points[0]", "no figure"]),
            ({"points": [changed(point, step_time_s=-1)]}, ["points[0].step_time_s", "above zero"]),
            ({"points": [changed(point, **{"at": {"batch": 8, "parallel.tensor": 7}})]}, ["points[0].at.parallel.tensor = 7", "1, 2 and 3"]),
            ({"view": {"x": "bach"}}, ["view.x", "no such axis"]),
            ({"view": {"at": {"batch": 9}}}, ["view.at.batch = 9", "no value of this axis"]),
            ({"view": {"y": "speed"}}, ["view.y"]),
            ({"fill": "parallel.tensor"}, ["fill", "parallel.data or cluster.devices"]),
            ({"name": "../../elsewhere"}, ['name = "../../elsewhere"', "folder of results"]),
            ({"name": ".."}, ['name = ".."', "folder of results"]),
            ({"schema_version": 2}, ["schema_version", "use 1"]),
            ({"basis": {}}, ["basis", 'did you mean "base"?']),
            ({"base.training.seq_length": "long"}, ["training.seq_length", "long"]),
        ):
            error = self.refusal(changed(STUDY, **changes))
            for word in words:
                self.assertIn(word, error)

    def test_a_base_that_is_missing_or_unreadable_is_named(self):
        self.assertIn("base: is missing", self.refusal({key: value for key, value in STUDY.items() if key != "base"}))
        self.assertIn('base = "nowhere.json": there is no such file', self.refusal(dict(STUDY, base="nowhere.json")))

    def test_no_json_and_no_object_are_refused(self):
        self.assertIn("line 1", self.refusal("{"))
        self.assertIn("must be an object", self.refusal("[]"))

    def test_a_folder_that_cannot_be_made_is_refused(self):
        path = self.study()
        code, out, err = run("sweep", path, "--out", path + "/x")
        self.assertEqual((code, out), (3, ""))
        self.assertIn("cannot be made", err)

    def test_a_folder_has_one_sweep_at_a_time_which_is_named(self):
        path = self.study()
        self.out.mkdir()
        with open(self.out / "lock", "w", encoding="utf-8") as lock:
            lock.write("locked by process 12 on elsewhere\n")
            lock.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
            code, out, err = run("sweep", path, "--out", self.out)
            self.assertEqual((code, out), (3, ""))
            self.assertIn(f"{self.out}: is in use: process 12 on elsewhere", err)
        self.sweep(path)
        self.assertFalse((self.out / "lock").exists())


class ReadyStudies(Studies):
    def test_the_studies_of_the_project_are_well_formed(self):
        """Read, checked and their plans formed; not run: that takes minutes."""
        found = sorted((SOURCE / "experiments" / "studies").glob("*/study.json"))
        self.assertGreaterEqual(len(found), 6)
        for path in found:
            self.assertTrue((path.parent / "README.md").exists(), path)
            study = json.loads(path.read_text(encoding="utf-8"))
            study["base"] = study["base"] if isinstance(study["base"], dict) else json.loads((path.parent / study["base"]).read_text(encoding="utf-8"))
            study["axes"] = [dict(axis, values=axis["values"][:1]) for axis in study["axes"]]
            study.pop("points", None)
            small = self.folder.file(path.parent.name + ".json", json.dumps(study))
            code, out, err = run("sweep", small, "--out", self.folder.path / path.parent.name, "--json")
            self.assertIn(code, (0, 5), err)  # 5: the one plan does not fit
            self.assertEqual(json.loads(out)["points"], 1)


if __name__ == "__main__":
    tandem.main()
