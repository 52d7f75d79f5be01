#!/usr/bin/env python3
"""Published measurements: predicted and judged, and constants fitted to them."""
import csv
import json
import pathlib
import shutil
import subprocess
import unittest

import tandem
from tandem import SMALL, SOURCE, WithFolder, changed, run, tandem_json


class Validate(WithFolder):
    def records(self, *plans, **keys):
        lines = [json.dumps({"id": f"r{i}", "plan": plan, "measured": {"step_time_s": 2.0}, **keys}) for i, plan in enumerate(plans)]
        return self.folder.file("some-set.jsonl", "\n".join(lines) + "\n")

    def test_errors_are_of_the_predicted_records_and_refused_ones_are_counted(self):
        file = self.records(SMALL, changed(SMALL, **{"model.position_embedding": "relative"}))
        result = tandem_json("validate", file)
        predicted = tandem_json("simulate", self.folder.plan(SMALL))["step_time_s"]
        summary = result["sets"][0]
        self.assertEqual((summary["name"], summary["n"], summary["refused"]), ("some-set", 1, 1))
        self.assertAlmostEqual(summary["bias"], predicted / 2.0 - 1, places=12)
        self.assertEqual(summary["mape"], abs(summary["bias"]))
        first, second = result["records"]
        self.assertEqual((first["refused"], first["predicted_step_time_s"]), (False, predicted))
        self.assertEqual((second["refused"], second["predicted_step_time_s"], second["fits"]), (True, None, None))
        self.assertIn("model.position_embedding", second["reason"])

    def test_layouts_of_a_published_grid_come_in_their_order(self):
        """165 layouts (arXiv 2311.05610). Bubbles of 44 rows are those of 256 sequences a step (published_runs.md, Open)."""
        lines = (pathlib.Path(SOURCE) / "experiments/corpus/layout_grid.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]

        def tau(name):
            summary = tandem_json("validate", self.folder.file(name, "\n".join(json.dumps(record) for record in records)))["sets"][0]
            self.assertEqual((summary["n"], summary["refused"]), (165, 0))
            return summary["kendall_tau"], summary["worst"]

        printed, _ = tau("printed.jsonl")
        short = [r for r in records if (r["plan"]["training"]["seq_length"], r["plan"]["training"].get("attention_kernel")) == (2048, "flash2")]
        self.assertEqual(len(short), 44)
        for record in short:
            record["plan"]["training"]["global_batch_size"] //= 8
            record["measured"]["step_time_s"] /= 8
        read, worst = tau("read.jsonl")
        self.assertGreaterEqual(read, 0.8)
        self.assertGreaterEqual(printed, 0.7)  # the bar of 0.75 holds for the batch that the bubbles tell, not for the printed one
        self.assertLess(abs(worst), 0.35)  # as printed, one of these rows is 43 % off

    def test_where_every_record_is_refused_the_reasons_are_told_and_it_exits_3(self):
        code, out, err = run("validate", self.records("plan.json", changed(SMALL, **{"model.position_embedding": "relative"})))
        self.assertEqual(code, 3)
        for words in ("r0", "model.position_embedding", "no record has a prediction: all 2 were refused"):
            self.assertIn(words, err)
        self.assertIn("some-set", out)

    def test_a_mean_error_of_a_set_beyond_the_tolerance_exits_6(self):
        predicted = tandem_json("simulate", self.folder.plan(SMALL))["step_time_s"]

        def of(name, *errors):
            lines = [json.dumps({"id": f"r{e}", "plan": SMALL, "measured": {"step_time_s": predicted / (1 + e)}}) for e in errors]
            return self.folder.file(name, "\n".join(lines))

        worse, better = of("worse.jsonl", 0.3, -0.1), of("better.jsonl", 0.1, 0.1)  # mean absolute errors of 20 % and 10 %
        for share, outside in (("20.1%", []), ("0.199", ["worse"]), ("9.9%", ["worse", "better"])):
            code, out, err = run("validate", worse, better, "--json", "--tolerance", share)
            self.assertEqual((code, json.loads(out)["outside"]), (6 if outside else 0, outside), err)
            self.assertEqual(err.count(" is outside "), len(outside), err)
        self.assertIn("worse: mean absolute error of step times 20.0 % is outside 15.0 %", run("validate", worse, "--tolerance", "15%")[2])
        self.assertEqual(run("validate", worse, better, "--tolerance", "15%", "--exclude", "worse")[0], 0)
        code, out, err = run("validate", worse, "--tolerance", "15%", "--exclude", "worse")
        self.assertEqual((code, out), (3, ""))
        self.assertIn("--tolerance: no set has a predicted and measured step time", err)
        self.assertEqual(run("validate", self.records("plan.json"), "--tolerance", "5%")[0], 3)  # all refused: nothing was judged

    def test_a_refused_record_is_outside_of_a_tolerance_and_named(self):
        predicted = tandem_json("simulate", self.folder.plan(SMALL))["step_time_s"]
        typo = changed(SMALL, **{"parallel.tensr": 2})
        lines = [{"id": "good", "plan": SMALL, "measured": {"step_time_s": predicted}}, {"id": "bad", "plan": typo, "measured": {"step_time_s": predicted}}]
        file = self.folder.file("mine.jsonl", "\n".join(map(json.dumps, lines)))
        self.assertEqual(run("validate", file)[0], 0)
        code, out, err = run("validate", file, "--json", "--tolerance", "5%")
        self.assertEqual((code, json.loads(out)["outside"]), (6, ["mine"]), err)
        self.assertIn("mine: not judged, so outside: bad: parallel.tensr", err)
        self.assertNotIn("mean absolute error", err)
        other = self.folder.file("other.jsonl", json.dumps(lines[0]))
        self.assertEqual(run("validate", file, other, "--tolerance", "5%", "--exclude", "mine")[0], 0)
        lines[1]["grade"] = "C"
        self.assertEqual(run("validate", self.folder.file("c.jsonl", "\n".join(map(json.dumps, lines))), "--tolerance", "5%")[0], 0)

    def test_a_record_over_several_lines_is_told_how_to_make_it_one(self):
        good = {"id": "r", "plan": SMALL, "measured": {"step_time_s": 2.0}}
        for text in (json.dumps(good, indent=1), json.dumps([good, good], indent=1), json.dumps(good) + "\n" + json.dumps(good, indent=2)):
            code, out, err = run("validate", self.folder.file("pretty.jsonl", text))
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn("a record is one line (JSON lines)", err)
            self.assertIn("jq -c . FILE", err)
        code, _, err = run("validate", self.folder.file("cut.jsonl", json.dumps(good)[:-3] + "\n" + json.dumps(good)))
        self.assertEqual(code, 3)
        self.assertNotIn("jq", err)

    def test_a_validation_says_how_many_records_it_was_given(self):
        told = tandem_json("validate", self.records(SMALL, "plan.json"))
        self.assertEqual((told["interrupted"], told["records_given"], told["tolerance"], told["outside"]), (False, 2, None, []))

    def test_a_measured_throughput_gives_the_step_time(self):
        # SMALL has 8 sequences of 16 tokens a step: 128 tokens. At 64 tokens/s a step takes 2 s.
        lines = [{"id": "time", "plan": SMALL, "measured": {"step_time_s": 2.0}}, {"id": "rate", "plan": SMALL, "measured": {"tokens_per_s": 64}},
                 {"id": "both", "plan": SMALL, "measured": {"step_time_s": 2.0, "tokens_per_s": 1}}]
        file = self.folder.file("rates.jsonl", "\n".join(map(json.dumps, lines)))
        told = tandem_json("validate", file)
        self.assertEqual([r["measured_step_time_s"] for r in told["records"]], [2.0, 2.0, 2.0])
        self.assertNotIn("not read", run("validate", file)[1] + run("validate", file)[2])
        without = {"id": "r", "plan": changed(SMALL, **{"training.seq_length": None}), "measured": {"tokens_per_s": 64}}
        code, _, err = run("validate", self.folder.file("short.jsonl", json.dumps(without)))
        self.assertEqual(code, 3)
        self.assertIn(":1: measured.tokens_per_s = 64: needs the plan's training.seq_length", err)

    def test_what_cannot_have_been_measured_is_refused_with_line_and_field(self):
        good = {"id": "r", "plan": SMALL, "measured": {"step_time_s": 2.0}}
        for bad, words in (
            (changed(good, **{"measured.step_time_s": -2}), [":2: measured.step_time_s = -2: is no number above zero", "seconds"]),
            (changed(good, **{"measured.step_time_s": "2 s"}), [':2: measured.step_time_s = "2 s": is no number', "without a unit"]),
            (changed(good, **{"measured.peak_memory_bytes": 0}), [":2: measured.peak_memory_bytes = 0: ", "bytes"]),
            (changed(good, **{"measured.peak_memory_bytes": 70}), [":2: measured.peak_memory_bytes = 70: is less than a megabyte", "70 GiB are 75161927680"]),
            (changed(good, **{"measured.out_of_memory": "yes"}), [':2: measured.out_of_memory = "yes": must be true or false', "without quotes"]),
            (changed(good, **{"measured.out_of_memory": True}), [":2: measured.out_of_memory = true: contradicts measured.step_time_s = 2.0"]),
            (changed(good, assumed="stack"), [':2: assumed = "stack": must be a list of texts', "write for example"]),
            (changed(good, assumed=[7]), [":2: assumed = ", "must be a list of texts"]),
            (changed(good, id=None), [":2: id: is missing"]),
            (changed(good, id=7), [":2: id = 7: must be a string"]),
            (changed(good, grade="X"), [':2: grade = "X": is no grade', "A, B or C"]),
            (changed(good, measured=3), [":2: measured = 3: must be an object"]),
            (changed(good, **{"measured.peak_memory_byte": 1e9}), [":2: measured.peak_memory_byte = ", "unknown key", '"peak_memory_bytes"']),
            (changed(good, **{"measured.step_time": 2.0}), [":2: measured.step_time = 2.0: unknown key", 'did you mean "step_time_s"?']),
            (changed(good, assume=["stack"]), [":2: assume = ", 'did you mean "assumed"?']),
            (changed(good, as_of="2024-13"), [':2: as_of = "2024-13": is no month', "YYYY-MM"]),
            (changed(good, framework=7), [":2: framework = 7: must be a string"]),
            ([good], [":2: ", "is no measurement record"]),
        ):
            file = self.folder.file("bad.jsonl", json.dumps(good) + "\n" + json.dumps(bad) + "\n")
            for command in (("validate", file), ("calibrate", "h100", file)):
                code, out, err = run(*command)
                self.assertEqual((code, out), (3, ""), err)
                self.assertRegex(err, r"\Atandem: error: [^\n]+\n\Z")
                for word in words:
                    self.assertIn(word, err)

    def test_records_that_tell_nothing_or_stand_twice_are_named(self):
        lines = [{"id": "a", "plan": SMALL, "measured": {"step_time_s": 2.0}}, {"id": "a", "plan": SMALL, "measured": {"step_time_s": 2.1}},
                 {"id": "b", "plan": SMALL, "measured": {"tflops_per_device": 50}}, {"id": "c", "plan": SMALL, "measured": {"step_time_s": None}}]
        file = self.folder.file("odd.jsonl", "\r\n".join(json.dumps(line) for line in lines) + "\r\n \r\n")
        code, out, _ = run("validate", file)
        self.assertEqual(code, 0)
        self.assertIn("no step_time_s, peak_memory_bytes or out_of_memory measured: b and 1 more\n", out)
        self.assertIn("id given before in the same file: a\n", out)

    def test_keys_of_a_record_that_nobody_knows_are_told(self):
        record = {"id": "r", "plan": SMALL, "measured": {"step_time_s": 2.0, "loss": 3}, "foo": 1}
        code, _, err = run("validate", self.folder.file("own.jsonl", (json.dumps(record) + "\n") * 2))
        self.assertEqual((code, err), (0, "keys of records that are not read: foo and measured.loss\n"))

    def test_the_answer_does_not_depend_on_the_number_of_threads(self):
        file = self.records(*[changed(SMALL, **{"training.global_batch_size": 8 * n}) for n in range(1, 7)])
        one, many = (run("validate", file, "--json", "--jobs", jobs) for jobs in (1, 5))
        self.assertEqual((one[0], one), (0, many))

    def test_the_page_and_the_csv_hold_every_record_and_refused_ones_too(self):
        file = self.records(SMALL, changed(SMALL, **{"model.position_embedding": "relative"}))
        page, table = self.path("out/page.html"), self.path("out/records.csv")
        code, out, err = run("validate", file, "--html", page, "--csv", table)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("some-set", out)
        with open(table, encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        self.assertEqual([r["id"] for r in rows], ["r0", "r1"])
        self.assertAlmostEqual(float(rows[0]["error"]), float(rows[0]["predicted_step_time_s"]) / 2 - 1, places=6)
        self.assertIn("model.position_embedding", rows[1]["refused"])
        with open(page, encoding="utf-8") as text:
            self.assertIn('"id":"r1"', text.read())

    @unittest.skipUnless(shutil.which("node"), "no node")
    def test_the_pages_memory_axis_is_in_megabytes_or_gigabytes_by_size(self):
        page = (tandem.SOURCE / "experiments" / "tandem" / "validation" / "page.html").read_text(encoding="utf-8")
        line = next(line for line in page.splitlines() if line.startswith("const memoryText"))
        shown = subprocess.run(["node", "-e", line + "for (const v of [2e7, 9.9e8, 1e9, 8e10]) console.log(memoryText(v));"],
                               capture_output=True, text=True, check=True).stdout
        self.assertEqual(shown.splitlines(), ["20 MB", "990 MB", "1 GB", "80 GB"])
        self.assertIn("memoryText, \"peak memory\"", page)

    def test_no_id_of_a_record_can_break_the_page(self):
        record = {"id": "<!--<script>", "plan": SMALL, "measured": {"step_time_s": 2.0}}
        page = self.path("page.html")
        self.assertEqual(run("validate", self.folder.file("own.jsonl", json.dumps(record) + "\n"), "--html", page)[0], 0)
        with open(page, encoding="utf-8") as text:
            content = text.read()
        self.assertNotIn("<!--<script>", content)
        self.assertIn("\\u003c!--\\u003cscript>", content)

    def test_sets_can_be_chosen_and_kept_out_of_the_mean_and_unknown_ones_are_refused(self):
        file = self.records(SMALL)
        other = self.folder.file("other.jsonl", pathlib.Path(file).read_text(encoding="utf-8"))
        result = tandem_json("validate", "--only", "other", file, other)
        self.assertEqual([s["name"] for s in result["sets"]], ["other"])
        apart = tandem_json("validate", file, other, "--exclude", "other")
        self.assertEqual((apart["over_sets"]["sets"], apart["sets"][1]["excluded"]), (1, True))
        pooled = tandem_json("validate", "--pool", "other,some-set", "--pool", "other", file, other)["pools"]
        self.assertEqual([(p["name"], p["n"]) for p in pooled], [("some-set+other", 2), ("other", 1)])
        for option in ("--only", "--exclude", "--grade", "--pool"):
            code, out, err = run("validate", file, option, "nobody")
            self.assertEqual((code, out), (3, ""))
            self.assertIn("nobody", err)
        for option in ("--exclude", "--pool"):  # before anything is simulated or written
            code, _, err = run("validate", file, option, "nobody", "--csv", self.path("new/table.csv"))
            self.assertEqual((code, (self.folder.path / "new").exists()), (3, False))
            self.assertIn(f"{option} = nobody: there are no records of this set; given are some-set", err)
        self.assertEqual(run("validate", file, "--jobs", "0")[0], 2)
        empty = self.folder.file("nothing.jsonl", "\n")
        code, out, err = run("validate", empty)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("nothing.jsonl: holds no measurement record", err)
        self.assertEqual(tandem_json("validate", "--grade", "B,C", "--only", "other,some-set", file, other)["records"], [])

    def test_a_set_can_run_on_another_cluster_than_its_plans_name(self):
        plan = changed(SMALL, **{"cluster": {"preset": "dgx-a100-80gb", "devices": 16, "override": {"scale_out_per_node": "400 Gb/s"}},
                                 "parallel.data": 4, "training.precision": "bf16"})
        file = self.records(plan)
        named, moved = tandem_json("validate", file), tandem_json("validate", file, "--cluster", "some-set=jean-zay-a100")
        there = tandem_json("simulate", self.folder.plan(changed(plan, **{"cluster.preset": "jean-zay-a100"})))["step_time_s"]
        self.assertEqual(moved["records"][0]["predicted_step_time_s"], there)
        self.assertGreater(there, named["records"][0]["predicted_step_time_s"])  # its network is slower
        self.assertEqual((named["sets"][0]["cluster"], moved["sets"][0]["cluster"]), (None, "jean-zay-a100"))
        self.assertIn("some-set: its plans run on jean-zay-a100 in place of", run("validate", file, "--cluster", "some-set=jean-zay-a100")[1])
        for wrong, code, word in (("some-set=nowhere", 3, "nowhere"), ("other=dgx-h100", 3, "other"), ("some-set", 2, "SET=PRESET"),
                                  ("=dgx-h100", 2, "SET=PRESET")):
            got, out, err = run("validate", file, "--cluster", wrong)
            self.assertEqual((got, out), (code, ""), wrong)
            self.assertIn(word, err)
        for broken in ([1], {"cluster": [1]}, {"cluster": "dgx-h100"}):  # is refused for what it is, wherever it is told to run
            told = json.loads(run("validate", self.records(broken), "--cluster", "some-set=dgx-h100", "--json")[1])
            self.assertIn("must be an object", told["records"][0]["reason"])
        twice = run("validate", file, "--cluster", "some-set=dgx-h100", "--cluster", "some-set=dgx-h200")
        self.assertEqual(twice[:2], (2, ""))

    def test_a_record_is_of_its_framework_where_that_is_a_stack_and_else_of_its_plans(self):
        plan = changed(SMALL, **{"cluster": {"preset": "dgx-a100-80gb", "devices": 8}, "training.precision": "bf16", "stack": "megatron-core"})
        old, new, torch = (tandem_json("simulate", self.folder.plan(changed(plan, stack=stack)))["step_time_s"]
                           for stack in ({"name": "megatron-core", "as_of": "2021-09"}, "megatron-core",
                                         {"name": "pytorch-fsdp", "as_of": "2021-09"}))
        self.assertEqual(len({old, new, torch}), 3)
        for keys, expected, told in (({}, new, ""), ({"as_of": "2021-09"}, old, ""), ({"framework": "pytorch-fsdp", "as_of": "2021-09"}, torch, ""),
                                     ({"framework": "in-house"}, new, 'framework "in-house" (no such stack)')):
            code, out, err = run("validate", self.records(plan, **keys), "--json")
            self.assertEqual((code, json.loads(out)["records"][0]["predicted_step_time_s"]), (0, expected))
            self.assertIn(told, err)
            self.assertEqual(err == "", told == "")

    def test_errors_that_are_written_become_ranges_but_not_those_of_their_own_set(self):
        plan = changed(SMALL, **{"cluster": {"preset": "dgx-a100-80gb", "devices": 8}, "training.precision": "bf16"})
        predicted = tandem_json("simulate", self.folder.plan(plan))["step_time_s"]
        lines = [json.dumps({"id": str(i), "plan": plan, "measured": {"step_time_s": predicted * factor}})
                 for i, factor in enumerate((0.5, 2))]
        file = self.folder.file("some-set.jsonl", "\n".join(lines))
        place = {"TANDEM_PRESETS": str(self.folder.path)}
        table = self.path("topology/errors/step_time.json")
        self.assertEqual(run("validate", file, "--write-errors", table)[0], 0)
        told = json.loads(run("simulate", self.folder.plan(plan), "--json", environment=place)[1])["step_time_range"]
        self.assertIn("2 records of 1 source on a100, in any situation", told["basis"])
        self.assertAlmostEqual(told["low_s"], 0.5 * predicted, delta=0.01 * predicted)
        self.assertAlmostEqual(told["high_s"], 2 * predicted, delta=0.01 * predicted)
        record = json.loads(run("validate", file, "--json", environment=place)[1])["records"][0]
        self.assertGreater(record["low_s"], 0.51 * predicted)  # the wide default: no other set is in the table

    def test_a_source_is_left_out_with_the_defaults_that_rest_on_its_repository(self):
        plan = changed(SMALL, **{"cluster": {"preset": "dgx-h100", "devices": 8}, "training.precision": "bf16", "stack": "torchtitan"})
        of_repository = self.records(plan, source="a benchmark; pytorch/torchtitan:docs/performance.md")
        other = self.folder.file("other.jsonl", json.dumps({"id": "o", "plan": plan, "measured": {"step_time_s": 2.0}, "source": "x/y:z.md"}))
        usual = tandem_json("simulate", self.folder.plan(plan))["step_time_s"]
        result = tandem_json("validate", of_repository, other, "--leave-out", "each")
        self.assertEqual([r["predicted_step_time_s"] for r in result["records"]], [usual, usual])
        first, second = result["left_out"]["records"]
        self.assertNotEqual(first["predicted_step_time_s"], usual)
        self.assertEqual(second["predicted_step_time_s"], usual)  # no default rests on x/y
        one, two = result["left_out"]["sources"]
        self.assertEqual((one["name"], two["name"], one["together_with"]), ("some-set", "other", []))
        self.assertEqual((one["mape_with"], one["mape"]), (abs(usual / 2 - 1), abs(first["error"])))
        self.assertEqual(result["left_out"]["over_sources"]["sources"], 2)
        alone = tandem_json("validate", of_repository, other, "--leave-out", "some-set")["left_out"]
        self.assertEqual([r["id"] for r in alone["records"]], ["r0"])
        out = run("validate", of_repository, other, "--leave-out", "each")[1]
        self.assertIn("step time without defaults, constants and errors of the source", out)
        self.assertNotIn("left_out", tandem_json("validate", of_repository))

    def test_sets_of_one_repository_are_left_out_together(self):
        plan = changed(SMALL, **{"cluster": {"preset": "dgx-a100-80gb", "devices": 8}, "training.precision": "bf16"})
        one = self.records(plan, source="x/y:one.md")
        two = self.folder.file("two.jsonl", json.dumps({"id": "t", "plan": plan, "measured": {"step_time_s": 2.0}, "source": "x/y:two.md"}))
        sources = tandem_json("validate", one, two, "--leave-out", "two")["left_out"]["sources"]
        self.assertEqual([(s["name"], s["together_with"]) for s in sources], [("two", ["some-set"])])
        self.assertIn("two: left out together with some-set\n", run("validate", one, two, "--leave-out", "two")[1])

    def test_numbers_that_rest_on_a_source_are_named_where_it_is_left_out(self):
        calibration = json.loads((pathlib.Path(tandem.SOURCE) / "topology/calibration/a100.json").read_text(encoding="utf-8"))
        calibration["launch_s"]["fitted_on"] = "step times of 9 records (some-set 9)"
        calibration["launch_s"].pop("without", None)
        self.folder.file("device.json", json.dumps(calibration))
        cluster = self.folder.file("cluster.json", json.dumps({
            "node": "dgx-a100", "device": "a100-sxm4-80gb", "calibration": "device.json",
            "fabric": {"nodes_per_leaf": 20, "oversubscription": 1, "switch_latency_s": 3e-7}}))
        file = self.records(changed(SMALL, **{"cluster": {"preset": cluster, "devices": 8}, "training.precision": "bf16"}))
        source, = tandem_json("validate", file, "--leave-out", "some-set")["left_out"]["sources"]
        self.assertTrue(any(key.endswith(": launch_s") for key in source["could_not_be_left_out"]), source)
        self.assertIn("some-set: could not be left out: ", run("validate", file, "--leave-out", "some-set")[1])

    def test_an_unknown_source_is_refused_with_the_known_ones(self):
        code, out, err = run("validate", self.records(SMALL), "--leave-out", "nobody", "--csv", self.path("new/table.csv"))
        self.assertEqual((code, out), (3, ""))
        self.assertEqual(err, "tandem: error: --leave-out = nobody: there are no records of this source; given are some-set; "
                              "each leaves out each in turn\n")
        self.assertFalse((self.folder.path / "new").exists())

    def test_ranges_are_wider_for_what_no_record_on_the_device_has(self):
        plan = changed(SMALL, **{"cluster": {"preset": "dgx-a100-80gb", "devices": 8}, "training.precision": "bf16", "stack": "megatron-core"})
        names = {"TANDEM_PRESETS": str(self.folder.path)}
        entry = {"device": "a100", "situation": "one node", "source": "s", "records": 9, "devices": 8,
                 "like": ["layout data alone", "precision bf16", "stack megatron-core"],
                 "log_measured_over_predicted": [-0.1, 0, 0.1]}
        (self.folder.path / "topology/errors").mkdir(parents=True)
        self.folder.file("topology/errors/step_time.json", json.dumps({
            "computed": "today", "entries": [{**entry, "situation": s} for s in ("host-bound", "one node")],
            "wider": {"seen": {"factor": 1}, "unseen": {"factor": 2}}, "unknown_device": {"low": -1, "high": 1, "reason": "none"}}))

        def ranges(of, *words):
            prediction = json.loads(run(*words, self.folder.plan(of), "--json", environment=names)[1])
            return prediction["step_time_range"], prediction["step_time_s"]
        data = changed(plan, **{"parallel": {"data": 8, "zero_stage": 0}, "training.global_batch_size": 64})
        known, step = ranges(data, "simulate")
        self.assertEqual(known["wider"], "")
        self.assertAlmostEqual(known["high_s"] / step, 1.1052, places=3)
        other, step = ranges(changed(data, stack="pytorch-ddp"), "simulate")
        self.assertEqual(other["wider"], "no record on a100 has stack pytorch-ddp")
        self.assertAlmostEqual(other["high_s"] / step, 1.2214, places=3)
        self.assertIn("; no record on a100 has stack pytorch-ddp; ", other["basis"])
        text = run("simulate", self.folder.plan(changed(data, stack="pytorch-ddp")), environment=names)[1]
        self.assertRegex(text, r"beyond the records +no record on a100 has stack pytorch-ddp\n")

    def test_a_line_that_is_no_record_exits_3_with_its_number(self):
        code, out, err = run("validate", self.folder.file("bad.jsonl", "\n{}\n"))
        self.assertEqual((code, out), (3, ""))
        self.assertIn("bad.jsonl:2", err)


class Calibrate(WithFolder):
    """A device of its own: a cluster file whose calibration lies beside it."""

    def setUp(self):
        super().setUp()
        fact = {"value": 0.5, "fit": {"low": 0.2, "high": 0.9}, "fitted_on": "nothing"}
        self.calibration = self.folder.file("device.json", json.dumps({
            "describes": "made up", "matmul": {"model": "flat", "ceiling": fact}, "memory_share": 0.8, "kernel_s": 0,
            "communication": {"overhead_s": 1e-5, "inside_share": 0.8, "across_share": 0.8}}))
        cluster = self.folder.file("cluster.json", json.dumps({
            "node": "dgx-a100", "device": "a100-sxm4-80gb", "calibration": self.calibration,
            "fabric": {"nodes_per_leaf": 20, "oversubscription": 1, "switch_latency_s": 3e-7}}))
        plan = changed(SMALL, **{"cluster.preset": cluster, "model.hidden_size": 4096, "model.ffn_hidden_size": 16384,
                                 "training.seq_length": 1024, "training.precision": "bf16"})
        lines = []
        for i, sequences in enumerate((8, 16, 32)):
            of_size = changed(plan, **{"training.global_batch_size": sequences})
            slower = 1.4 * tandem_json("simulate", self.folder.plan(of_size), "--allow-oversize")["step_time_s"]
            lines.append(json.dumps({"id": str(i), "plan": of_size, "measured": {"step_time_s": slower}}))
        self.records = self.folder.file("some-set.jsonl", "\n".join(lines))

    def test_a_fitted_calibration_is_a_new_file_that_explains_the_measurements_better(self):
        fit = tandem_json("calibrate", self.calibration, self.records)
        constant, source = fit["constants"][0], fit["sources"][0]
        self.assertEqual((constant["key"], source["name"], source["records"]), ("matmul.ceiling", "some-set", 3))
        self.assertLess(constant["fitted"], 0.45)
        self.assertLess(source["fitted"], 0.2 * source["before"])
        self.assertIsNone(source["left_out"])  # there is no other source
        written = json.loads((self.folder.path / "device.fitted.json").read_text(encoding="utf-8"))
        self.assertEqual(written["matmul"]["ceiling"]["value"], constant["fitted"])
        self.assertIn("3 records (some-set 3)", written["matmul"]["ceiling"]["fitted_on"])
        self.assertEqual(json.loads(pathlib.Path(self.calibration).read_text(encoding="utf-8"))["matmul"]["ceiling"]["value"], 0.5)

    def test_files_are_overwritten_only_when_told(self):
        before = pathlib.Path(self.calibration).read_bytes()
        code, out, err = run("calibrate", self.calibration, self.records, "-o", self.records)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("--write", err)
        self.assertEqual(pathlib.Path(self.calibration).read_bytes(), before)
        code, out, err = run("calibrate", self.calibration, self.records, "--write")
        self.assertEqual(code, 0, err)
        self.assertIn("matmul.ceiling", out)
        self.assertNotEqual(pathlib.Path(self.calibration).read_bytes(), before)

    def test_a_calibration_that_names_its_errors_narrows_the_range(self):
        plan = json.loads(pathlib.Path(self.records).read_text(encoding="utf-8").splitlines()[0])["plan"]
        file = self.folder.plan(plan)

        def simulated():
            return tandem_json("simulate", file, "--allow-oversize")["step_time_range"]

        def named(table):
            text = json.loads(pathlib.Path(self.calibration).read_text(encoding="utf-8")) | {"errors": table}
            pathlib.Path(self.calibration).write_text(json.dumps(text), encoding="utf-8")

        wide = simulated()
        self.assertIn("tandem validate RECORDS --write-errors FILE", wide["basis"])
        table = self.path("errors.json")
        code, _, err = run("validate", self.records, "--write-errors", table)
        self.assertEqual(code, 0, err)
        self.assertEqual(simulated(), wide)  # nothing names the table yet
        named("errors.json")
        own = simulated()
        self.assertIn("3 records of 1 source on " + self.calibration, own["basis"])
        self.assertGreater(own["high_s"] / wide["high_s"], 1)  # every record took 1.4 times as long
        self.assertGreater(own["low_s"], wide["low_s"])
        before = pathlib.Path(table).read_bytes()
        self.assertEqual(run("validate", self.records, "--write-errors", table)[0], 0)  # in place
        self.assertEqual(json.loads(before)["entries"], json.loads(pathlib.Path(table).read_text(encoding="utf-8"))["entries"])
        code, _, err = run("calibrate", self.calibration, self.records)
        self.assertEqual(code, 0, err)
        self.assertIn("errors.json holds the errors of the old constants", err)
        named("none.json")
        code, _, err = run("simulate", file, "--allow-oversize")
        self.assertEqual(code, 3)
        self.assertIn('device.json: errors = "none.json": there is no such file', err)
        named("other.json")
        self.folder.file("other.json", json.dumps(json.loads(before) | {"entries": []}))
        code, _, err = run("simulate", file, "--allow-oversize")
        self.assertEqual(code, 3)
        self.assertIn("has no error with this calibration", err)

    def test_a_device_without_records_or_constants_is_refused(self):
        for device, word in (("cpu", "fitted"), ("nobody", "nobody"), (self.path("none.json"), "none.json")):
            code, out, err = run("calibrate", device, self.records, "-o", self.path("out.json"))
            self.assertEqual((code, out), (3, ""), device)
            self.assertIn(word, err)
        code, out, err = run("calibrate", self.calibration, self.records, "--exclude", "some-set", "-o", self.path("out.json"))
        self.assertEqual((code, out), (3, ""))
        self.assertIn("none of the measurements", err)
        empty = self.folder.file("empty.jsonl", "")
        self.assertEqual(run("calibrate", self.calibration, empty, "-o", self.path("out.json"))[0], 3)


if __name__ == "__main__":
    tandem.main()
