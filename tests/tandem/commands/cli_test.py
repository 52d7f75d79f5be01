#!/usr/bin/env python3
"""What scripts rely on: keys, streams, exit codes."""
import json
import pathlib
import re

import tandem
from tandem import SMALL, TEXT, Folder, WithFolder, changed, parsed, run, tandem_json

SIMULATE_KEYS = {
    "schema_version", "step_time_s", "tokens_per_s", "samples_per_s", "model_tflops_per_device",
    "hardware_tflops_per_device", "mfu", "hfu", "peak_memory_bytes", "arena_bytes", "live_peak_bytes", "needed_bytes", "fits",
    "bubble_fraction", "time_breakdown_s", "memory_bytes", "plan",
}
MEMORY_KINDS = {"weights", "gradients", "optimizer", "activations", "communication", "workspace", "runtime"}


class CommandLine(WithFolder):
    def test_help_and_version_go_to_stdout_and_exit_0(self):
        for arguments in (["--help"], ["--version"], ["simulate", "--help"], ["train", "--help"]):
            code, out, err = run(*arguments)
            self.assertEqual((code, err), (0, ""), arguments)
            self.assertTrue(out)

    def test_help_documents_every_exit_code(self):
        out = " ".join(run("--help")[1].split())
        for code in ("0 ok", "1 internal", "2 bad command line", "3 bad or unreadable", "4 plan infeasible", "5 nothing",
                     "6 comparison", "7 a device", "130 interrupted", "141 the reader"):
            self.assertIn(code, out)

    def test_a_bad_command_line_points_to_the_help_of_its_command(self):
        self.assertEqual(run("simulate", "plan.json", "--jsn"),
                         (2, "", "tandem: error: --jsn is no option of this command: did you mean --json?; see tandem simulate --help\n"))
        self.assertIn(": --zzzz is no option of this command; see", run("simulate", "plan.json", "--zzzz=1")[2])
        self.assertIn(': "other.json" is one value too many; see', run("simulate", "plan.json", "other.json")[2])
        self.assertEqual(run("simulat"), (2, "", 'tandem: error: "simulat" is no command: did you mean "simulate"?; see tandem --help\n'))
        self.assertIn("there are simulate, search", run("zzz")[2])

    def test_a_bad_command_line_exits_2_with_one_line_on_stderr(self):
        plan = self.folder.plan(SMALL)
        for arguments in ([], ["simulat", plan], ["simulate"], ["simulate", plan, "--jsn"],
                          ["train", plan], ["train", plan, "--data", TEXT, "--steps", "0"],
                          ["train", plan, "--data", TEXT, "--steps", "x"], ["compare", plan],
                          ["train", plan, "--data", TEXT, "--eval-every", "0"],
                          ["train", plan, "--data", TEXT, "--eval-steps", "2"],
                          ["train", plan, "--data", TEXT, "--backend", "tpu"],
                          ["compare", plan, plan, "--tolerance", "nan"], ["compare", plan, plan, "--tolerance", "-1"],
                          ["compare", plan, plan, "--tolerance", "5"], ["compare", plan, plan, "--memory-tolerance", "1e9"],
                          ["compare", plan, plan, "--tolerance", "101%"], ["compare", plan, plan, "--tolerance", "%"]):
            code, out, err = run(*arguments)
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertRegex(err, r"\Atandem: error: .+\n\Z")

    def test_training_on_cuda_without_a_device_is_one_error(self):
        code, out, err = run("train", self.folder.plan(SMALL), "--data", TEXT, "--backend", "cuda", environment={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual((out, err.count("\n")), ("", 1))
        self.assertIn((code, "no CUDA device" in err, "this build has no CUDA" in err), [(7, True, False), (4, False, True)])

    def test_the_schema_is_a_json_schema_of_the_four_parts(self):
        schema = tandem_json("schema")
        self.assertIn("$schema", schema)
        self.assertLessEqual({"model", "parallel", "training", "cluster"}, set(schema["properties"]))


class Simulate(WithFolder):
    def test_json_has_the_documented_keys_and_consistent_numbers(self):
        result = tandem_json("simulate", self.folder.plan(SMALL))
        self.assertLessEqual(SIMULATE_KEYS, set(result))
        self.assertEqual(set(result["memory_bytes"]), MEMORY_KINDS)
        self.assertGreater(result["step_time_s"], 0)
        tokens = 8 * 16
        self.assertAlmostEqual(result["tokens_per_s"] * result["step_time_s"], tokens, delta=1e-6 * tokens)
        self.assertAlmostEqual(sum(result["time_breakdown_s"].values()), result["step_time_s"], delta=1e-9)
        self.assertGreaterEqual(result["arena_bytes"], result["live_peak_bytes"])
        self.assertEqual(result["plan"]["parallel"]["tensor"], 2)

    def test_two_runs_are_byte_equal(self):
        plan = self.folder.plan(SMALL)
        for name in ("a", "b"):
            self.assertEqual(run("simulate", plan, "--timeline", self.path(name), "--trace", self.path(name + "t"))[0], 0)
        self.assertEqual(run("simulate", plan, "--json"), run("simulate", plan, "--json"))
        for pair in (("a", "b"), ("at", "bt")):
            first, second = ((self.folder.path / name).read_bytes() for name in pair)
            self.assertEqual(first, second)

    def test_a_plan_that_does_not_fit_is_printed_whole_and_exits_4_unless_allowed(self):
        big = changed(SMALL, **{"model.num_layers": 96, "model.hidden_size": 12288, "model.num_attention_heads": 96,
                                "model.ffn_hidden_size": 49152, "model.vocab_size": 51200, "training.precision": "bf16",
                                "training.seq_length": 2048,
                                "cluster": {"preset": "dgx-a100-80gb", "devices": 8}})
        plan = self.folder.plan(big)
        code, out, err = run("simulate", plan, "--json")
        self.assertEqual(code, 4)
        self.assertFalse(json.loads(out)["fits"])
        self.assertRegex(err, r"\Atandem: error: .*does not fit.*\n\Z")
        code, allowed, err = run("simulate", plan, "--json", "--allow-oversize")
        self.assertEqual((code, allowed, err), (0, out, ""))

    def test_the_trace_opens_and_names_every_rank(self):
        plan, trace = self.folder.plan(SMALL), self.path("made/for/this/trace.json")
        self.assertEqual(run("simulate", plan, "--trace", trace)[0], 0)
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertLessEqual({"X", "M", "C", "s", "f"}, {event["ph"] for event in events})

    def test_an_output_that_cannot_be_written_exits_3_and_names_it(self):
        blocked = self.folder.file("blocked", "")
        code, _, err = run("simulate", self.folder.plan(SMALL), "--timeline", blocked + "/t.json")
        self.assertEqual(code, 3)
        self.assertIn(blocked, err)

    def test_a_cost_table_of_another_device_is_refused(self):
        table = self.folder.file("table.json", "{}")
        code, _, err = run("simulate", self.folder.plan(SMALL), "--cost-table", table)
        self.assertEqual(code, 3)
        self.assertIn(table, err)


class Compare(WithFolder):
    def timelines(self, plan):
        simulated, executed = self.path("sim.json"), self.path("run.json")
        self.assertEqual(run("simulate", plan, "--timeline", simulated)[0], 0)
        self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 2, "--timeline", executed, "--trace",
                             self.path("trace.json"))[0], 0)
        return simulated, executed

    def test_simulated_and_executed_tasks_join_one_to_one_and_memory_is_equal(self):
        for recompute in ("none", "full"):
            plan = self.folder.plan(changed(SMALL, **{"training.recompute": recompute}))
            result = tandem_json("compare", *self.timelines(plan))
            self.assertEqual((result["tasks"]["only_simulated"], result["tasks"]["only_executed"]), (0, 0))
            self.assertGreater(result["tasks"]["joined"], 0)
            self.assertEqual(result["memory"]["error"], 0)
            self.assertEqual([line["what"] for line in result["stages"]], ["stage 0", "stage 1"])

    def test_a_comparison_outside_tolerance_is_printed_and_exits_6(self):
        files = self.timelines(self.folder.plan(SMALL))
        code, out, err = run("compare", *files, "--tolerance", "0")
        self.assertEqual(code, 6)
        self.assertIn("by operation", out)
        self.assertRegex(err, r"tandem: error: error of the step time")
        self.assertEqual(run("compare", *files, "--memory-tolerance", "0")[0], 0)

    def test_a_tolerance_is_a_fraction_or_a_percentage(self):
        simulated, _ = self.timelines(self.folder.plan(SMALL))
        slow = self.path("slow.json")
        self.assertEqual(run("simulate", self.folder.plan(SMALL), "--timeline", slow, "--perturb",
                             '{"slow_devices": [{"rank": 0, "factor": 0.8}]}')[0], 0)
        change = tandem_json("compare", slow, simulated)["step"]["change"]
        self.assertTrue(0.01 < change < 1, change)
        for tolerance, code in ((f"{0.9 * change:.9f}", 6), (f"{90 * change:.9f}%", 6), (f"{1.1 * change:.9f}", 0),
                                (f"{110 * change:.9f}%", 0), ("100%", 0), ("1", 0), ("0%", 6)):
            self.assertEqual(run("compare", slow, simulated, "--tolerance", tolerance)[0], code, tolerance)

    def test_a_run_slower_than_its_baseline_exits_6_and_a_faster_one_0(self):
        simulated, _ = self.timelines(self.folder.plan(SMALL))
        slow = self.path("slow.json")
        self.assertEqual(run("simulate", self.folder.plan(SMALL), "--timeline", slow, "--perturb",
                             '{"slow_devices": [{"rank": 0, "factor": 0.02}]}')[0], 0)
        code, _, err = run("compare", slow, simulated, "--tolerance", "0.05")
        self.assertEqual(code, 6)
        self.assertRegex(err, r"change of the step time \+\d")
        self.assertEqual(run("compare", simulated, slow, "--tolerance", "0")[0], 0)
        self.assertEqual(run("compare", simulated, simulated, "--tolerance", "0", "--memory-tolerance", "0")[0], 0)

    def test_swapped_or_foreign_files_exit_3(self):
        simulated, executed = self.timelines(self.folder.plan(SMALL))
        self.assertEqual(run("compare", executed, simulated)[0], 3)
        self.assertEqual(run("compare", simulated, self.folder.plan(SMALL))[0], 3)
        other = self.folder.plan(changed(SMALL, **{"model.num_layers": 4}))
        self.assertEqual(run("simulate", other, "--timeline", self.path("other.json"))[0], 0)
        code, _, err = run("compare", self.path("other.json"), executed)
        self.assertEqual(code, 3)
        self.assertIn("model.num_layers", err)

    def test_a_step_of_a_batch_ramp_up_is_told_and_one_behind_it_compares(self):
        plan = self.folder.plan(changed(SMALL, **{"training.batch_rampup": {"start": 4, "increment": 4, "samples": 4}}))
        simulated, during, after = self.path("sim.json"), self.path("during.json"), self.path("after.json")
        self.assertEqual(run("simulate", plan, "--timeline", simulated)[0], 0)
        for step, file in ((0, during), (3, after)):
            self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 4, "--timeline", file, "--timeline-step", step)[0], 0)
        code, _, err = run("compare", simulated, during)
        self.assertEqual(code, 3)
        self.assertRegex(err, r"training\.batch_rampup\S*: .*batch of 4: .*--timeline-step")
        self.assertIn(run("compare", simulated, after)[0], (0, 6))


    def test_two_layouts_of_one_model_are_compared_and_their_differences_told(self):
        one, other = self.path("one.json"), self.path("other.json")
        for changes, file in (({}, one), ({"parallel": {"tensor": 4, "data": 2}, "training.learning_rate": 0.5}, other)):
            self.assertEqual(run("simulate", self.folder.plan(changed(SMALL, **changes)), "--timeline", file)[0], 0)
        result = tandem_json("compare", other, one)
        self.assertEqual(result["tasks"]["joined_by"], "name")
        told = {d["field"]: (d["new"], d["baseline"]) for d in result["differences"]}
        self.assertEqual((told["parallel.tensor"], told["parallel.pipeline"]), (("4", "2"), ("1", "2")))
        self.assertIn("training.learning_rate", told)
        code, out, err = run("compare", other, one, "--tolerance", "100%")
        self.assertIn(code, (0, 6), err)
        self.assertIn("the plans differ", out)
        page = self.path("layouts.html")
        self.assertEqual(run("compare", other, one, "--html", page)[0], 0)

    def test_a_changed_digit_of_a_timeline_exits_3_and_says_where_to_get_another(self):
        simulated, executed = self.timelines(self.folder.plan(SMALL))
        with open(executed, encoding="utf-8") as file:
            text = file.read()
        step = re.search(r'"step_time_ps":(\d+)', text).group(1)
        bent = self.folder.file("bent.json", text.replace(f'"step_time_ps":{step}', '"step_time_ps":1', 1))
        code, out, err = run("compare", simulated, bent)
        self.assertEqual((code, out, err.count("\n")), (3, "", 1))
        self.assertRegex(err, r"bent\.json: checksum = \w+: .*; give a file that")
        old = self.folder.file("old.json", re.sub(r',\n"checksum":"\w+"', "", text))
        self.assertEqual(run("compare", simulated, old)[0], 0)
        both = self.folder.file("both.json", re.sub(r',\n"checksum":"\w+"', "", pathlib.Path(bent).read_text()))
        code, _, err = run("compare", simulated, both)
        self.assertEqual(code, 3)
        self.assertIn("step_time_ps = 1: the last task ends at", err)

    def test_what_is_no_timeline_is_refused_before_it_is_read(self):
        hole = self.path("hole.json")
        with open(hole, "wb") as file:
            file.truncate(40 << 30)
        for path in ("/dev/zero", hole):
            for files in ((path, path), (self.folder.plan(SMALL), path)):
                code, out, err = run("compare", *files, timeout=20)
                self.assertEqual((code, out, err.count("\n")), (3, "", 1), err)
                self.assertNotIn("bad_alloc", err)

    def test_a_run_keeps_the_times_of_all_its_steps(self):
        plan, file = self.folder.plan(SMALL), self.path("run.json")
        told = tandem_json("train", plan, "--data", TEXT, "--steps", 6, "--timeline", file)
        with open(file, encoding="utf-8") as text:
            times = json.load(text)["run"]["step_times"]
        counted = sorted(s["step_time_s"] for s in told["steps"][1:])
        self.assertEqual((times["steps"], times["median_s"]), (5, counted[2]))
        self.assertEqual((times["low_s"], times["high_s"]), (counted[0], counted[-1]))
        self.assertEqual(tandem_json("compare", file, file, "--tolerance", "0")["verdict"] in ("within", "undecided"), True)
        short = self.path("short.json")
        self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 2, "--timeline", short)[0], 0)
        code, _, err = run("compare", short, file, "--tolerance", "5%")
        self.assertEqual(code, 3)
        self.assertIn("short.json: run.steps = 1: ", err)

    def test_a_simulation_without_a_measured_table_says_so(self):
        notes = tandem_json("compare", *self.timelines(self.folder.plan(SMALL)))["notes"]
        self.assertTrue(any("no measured table" in note for note in notes), notes)


class Routing(WithFolder):
    MOE = changed(SMALL, **{"model.family": "llama", "parallel": {"data": 4, "expert": 4, "pipeline": 2},
                            "model.moe": {"num_experts": 4, "experts_per_token": 2, "rows_bound": 4}})

    def test_a_run_is_replayed_and_anything_else_exits_3_with_the_field(self):
        plan, file = self.folder.plan(self.MOE), self.path("run.json")
        self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 2, "--timeline", file)[0], 0)
        even, replayed = tandem_json("simulate", plan), tandem_json("simulate", plan, "--routing", file)
        self.assertGreater(len(replayed["roles"]), len(even["roles"]))
        self.assertEqual(replayed["arena_bytes"], even["arena_bytes"])
        self.assertIn("rows of experts are those of the run whose routing is replayed", replayed["notes"])
        self.assertEqual(tandem_json("simulate", plan, "--routing", file), replayed)
        again = self.path("simulated.json")
        self.assertEqual(run("simulate", plan, "--routing", file, "--timeline", again)[0], 0)
        self.assertIn(run("compare", again, file)[0], (0, 6))
        flops = lambda path: self.flops(json.loads(open(path).read()))
        self.assertEqual(flops(again), flops(file))
        for changes, field in (({"parallel.expert": 2}, "parallel.expert"), ({"model.ffn_hidden_size": 48}, "model.ffn_hidden_size"),
                               ({"training.micro_batch_size": 2}, "training.micro_batch_size"),
                               ({"model.moe": None, "parallel.expert": None}, "parallel.expert")):
            code, out, err = run("simulate", self.folder.plan(changed(self.MOE, **changes), "other.json"), "--routing", file)
            self.assertEqual((code, out), (3, ""), changes)
            self.assertIn(field, err)
        self.assertEqual(run("simulate", plan, "--timeline", again)[0], 0)
        run_file = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
        run_file["lanes"][-1]["routing"][0][0] += 100  # a layer that the model lacks
        for wrong in (again, plan, self.path("missing.json"), self.folder.file("bent.json", json.dumps(run_file))):
            self.assertEqual(run("simulate", plan, "--routing", wrong)[0], 3, wrong)

    @staticmethod
    def flops(timeline):
        """Of every rank."""
        total = {}
        for lane in timeline["lanes"]:
            for rank in lane["ranks"]:
                total[rank] = sum(timeline["tasks"][span[0]]["flops"] for span in lane["spans"])
        return total


class Measure(WithFolder):
    @classmethod
    def setUpClass(cls):
        """One measurement of this machine, written to its own place, for all that read it."""
        measured = Folder()
        cls.addClassCleanup(measured.close)
        cls.place = {"TANDEM_MEASURED": str(measured.path / "measured")}
        cls.measured = parsed("measure", *run("measure", "--device", "cpu", "--quick", "--json", environment=cls.place))
        cls.table = cls.measured["file"]

    def test_a_measured_table_is_what_the_simulator_then_uses(self):
        table, plan = self.table, self.folder.plan(SMALL)
        generic, measured = tandem_json("simulate", plan), tandem_json("simulate", plan, "--cost-table", table)
        self.assertNotEqual(generic["step_time_s"], measured["step_time_s"])
        self.assertNotEqual(generic["notes"], measured["notes"])
        # in another type the table says nothing, which is no reason to predict as if there were none
        double = self.folder.plan(changed(SMALL, **{"training.precision": "fp64"}), "double.json")
        code, out, err = run("simulate", double, "--cost-table", table)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("entries = fp32: the plan computes in fp64", err)
        self.assertIn("measure --precision fp64", err)
        # plans in 16 bits update in fp32, so that they need both types
        half, narrow = self.folder.plan(changed(SMALL, **{"training.precision": "bf16"}), "half.json"), json.loads(pathlib.Path(table).read_text())
        code, _, err = run("simulate", half, "--cost-table", table)
        self.assertEqual(code, 3)
        self.assertIn("measure --precision fp32,bf16 -o", err)
        narrow["entries"]["bf16"] = narrow["entries"].pop("fp32")
        code, _, err = run("simulate", half, "--cost-table", self.folder.file("narrow.json", json.dumps(narrow)))
        self.assertEqual(code, 0, err)
        self.assertIn("was not measured in fp32, which the plan also needs", err)
        (self.folder.path / "cpu-host.json").write_bytes(pathlib.Path(table).read_bytes())
        place = {"TANDEM_MEASURED": str(self.folder.path)}
        code, _, err = run("simulate", double, environment=place)
        self.assertEqual(code, 0)
        self.assertIn("was measured in fp32; the plan computes in fp64", err)
        self.assertNotIn("was measured in", run("simulate", plan, environment=place)[2])

    def test_a_table_of_this_machine_is_named_and_the_facts_that_it_replaces_are_not(self):
        place, plan, file, host = self.place, self.folder.plan(SMALL), self.table, self.measured["host"]
        date = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))["date"]
        note = f"measured table {file} ({host}, {date}): "
        notes = json.loads(run("simulate", plan, "--json", environment=place)[1])["notes"]
        self.assertEqual(len([n for n in notes if n.startswith(note)]), 1, notes)
        self.assertIn("note: " + note, run("simulate", plan, environment=place)[1])
        unverified = lambda notes: sorted(n.split(": ")[2].split(" ")[0] for n in notes if n.startswith("not verified: "))
        self.assertEqual(unverified(notes), ["memory_bytes", "peak_flops_per_s"])  # of `fits` and of `mfu`
        without = tandem_json("simulate", plan)["notes"]
        self.assertIn("matmul.ceiling", unverified(without))
        self.assertFalse([n for n in without if n.startswith("measured table")])
        facts = lambda where: {f["field"] for f in json.loads(run("explain", plan, "step_time_s", "--json", environment=where)[1])["facts"]}
        replaced = {"matmul.ceiling", "memory_share", "kernel_s"}
        self.assertEqual(facts(place) & (replaced | {"measured table"}), {"measured table"})
        self.assertEqual(facts({}) & (replaced | {"measured table"}), replaced)
        # nothing was measured in fp64, so the roofline's facts stay
        double = self.folder.plan(changed(SMALL, **{"training.precision": "fp64"}), "double.json")
        self.assertIn("matmul.ceiling", unverified(json.loads(run("simulate", double, "--json", environment=place)[1])["notes"]))
        record = {"plan": SMALL, "measured": {"step_time_s": 2.0}}
        records = self.folder.file("mine.jsonl", "\n".join(json.dumps({"id": i} | record) for i in "ab"))
        told = json.loads(run("validate", records, "--json", environment=place)[1])
        self.assertEqual([t.startswith(note) for t in told["measured_tables"]], [True])
        self.assertFalse([f for f in told["unverified"] if "matmul" in f])
        self.assertEqual(run("validate", records, environment=place)[1].count(note), 1)
        self.assertEqual(tandem_json("validate", records)["measured_tables"], [])

    def test_a_table_written_to_its_own_place_is_found_there(self):
        plan = self.folder.plan(SMALL)
        code, found, _ = run("simulate", plan, "--json", environment=self.place)
        self.assertEqual((code, json.loads(found)), (0, tandem_json("simulate", plan, "--cost-table", self.table)))

    def test_a_cuda_device_is_measured_or_refused_by_what_is_missing(self):
        table = self.path("cuda.json")
        code, out, err = run("measure", "--device", "cuda", "--seconds", "20", "-o", table)
        missing = {4: "this build has no CUDA", 7: "CUDA device|cuBLASLt cannot be loaded"}
        if code in missing:
            self.assertRegex(err, missing[code])
            self.assertEqual((out, pathlib.Path(table).exists()), ("", False))
            return
        self.assertEqual(code, 0, err)
        with open(table, encoding="utf-8") as file:
            measured = json.load(file)
        self.assertTrue(measured["facts"]["card"])
        self.assertTrue(measured["entries"]["bf16"]["matmul"])
        self.assertTrue(all(copy["seconds"] > 0 for copy in measured["copies"]))

    def test_options_of_the_other_device_are_refused(self):
        plan = self.folder.plan(SMALL)
        for arguments in (("--seconds", "30"), ("--name", "x"), (plan,), ("--device", "cuda", "--precision", "fp64")):
            code, out, err = run("measure", *arguments)
            self.assertEqual((code, out), (3, ""), arguments)
            self.assertIn("only", err)


if __name__ == "__main__":
    tandem.main()
