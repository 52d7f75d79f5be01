#!/usr/bin/env python3
"""What scripts rely on: keys, streams, exit codes."""
import csv
import json
import pathlib
import re
import signal
import subprocess
import time
import unittest

import tandem
from tandem import SMALL, TEXT, Folder, changed, run, tandem_json

SIMULATE_KEYS = {
    "schema_version", "step_time_s", "tokens_per_s", "samples_per_s", "model_tflops_per_device",
    "hardware_tflops_per_device", "mfu", "hfu", "peak_memory_bytes", "arena_bytes", "live_peak_bytes", "fits",
    "bubble_fraction", "time_breakdown_s", "memory_bytes", "plan",
}
MEMORY_KINDS = {"weights", "gradients", "optimizer", "activations", "communication", "workspace", "runtime"}
TRAIN_KEYS = {"schema_version", "steps", "tokens_per_s", "peak_memory_bytes", "flops", "bytes_sent", "arena_bytes"}


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)

    def path(self, name):
        return str(self.folder.path / name)


class CommandLine(WithFolder):
    def test_help_and_version_go_to_stdout_and_exit_0(self):
        for arguments in (["--help"], ["--version"], ["simulate", "--help"], ["train", "--help"]):
            code, out, err = run(*arguments)
            self.assertEqual((code, err), (0, ""), arguments)
            self.assertTrue(out)

    def test_help_documents_every_exit_code(self):
        out = run("--help")[1]
        for code in ("0 ok", "1 internal", "2 bad command line", "3 bad or unreadable", "4 plan infeasible", "5 nothing",
                     "6 comparison", "7 a device", "130 interrupted"):
            self.assertIn(code, out)

    def test_a_bad_command_line_exits_2_with_one_line_on_stderr(self):
        plan = self.folder.plan(SMALL)
        for arguments in ([], ["simulat", plan], ["simulate"], ["simulate", plan, "--jsn"],
                          ["train", plan], ["train", plan, "--data", TEXT, "--steps", "0"],
                          ["train", plan, "--data", TEXT, "--steps", "x"], ["compare", plan],
                          ["train", plan, "--data", TEXT, "--eval-every", "0"],
                          ["train", plan, "--data", TEXT, "--eval-steps", "2"],
                          ["train", plan, "--data", TEXT, "--backend", "tpu"],
                          ["compare", plan, plan, "--tolerance", "nan"], ["compare", plan, plan, "--tolerance", "-1"]):
            code, out, err = run(*arguments)
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertRegex(err, r"\Atandem: error: .+\n\Z")

    def test_what_this_version_lacks_is_said_and_exits_4(self):
        plan = self.folder.plan(SMALL)
        code, out, err = run("train", plan, "--data", TEXT, "--backend", "cuda", "--launch", "mpi")
        self.assertEqual((code, out, err.count("not implemented")), (4, "", 2))

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


class Train(WithFolder):
    def test_training_prints_documented_keys_and_agrees_with_the_plan(self):
        result = tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 3)
        self.assertLessEqual(TRAIN_KEYS, set(result))
        self.assertEqual([s["step"] for s in result["steps"]], [0, 1, 2])
        self.assertEqual(set(result["steps"][0]), {"step", "loss", "grad_norm", "learning_rate", "step_time_s",
                                                    "global_batch_size"})
        self.assertLess(abs(result["steps"][0]["loss"] - 5.545), 0.3)  # ln 256: nothing is known yet
        predicted = tandem_json("simulate", self.folder.plan(SMALL))
        self.assertEqual(result["arena_bytes"], predicted["arena_bytes"])
        self.assertLessEqual({"all_reduce", "send"}, set(result["bytes_sent"]))

    def test_a_step_is_a_line_on_stderr_and_nothing_but_data_on_stdout(self):
        code, out, err = run("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 2, "--json")
        self.assertEqual(code, 0)
        self.assertEqual(len([line for line in err.splitlines() if line.startswith("step ")]), 2)
        self.assertNotIn("\033", err)
        json.loads(out)

    def test_evaluations_follow_their_steps_and_change_no_loss(self):
        plan, train = self.folder.plan(SMALL), ("--data", TEXT, "--steps", 5)
        other = self.folder.file("other.txt", TEXT.read_bytes()[:20000])
        evaluate = ("--eval-every", 2, "--eval-steps", 3)
        beside = tandem_json("train", plan, *train, *evaluate, "--eval-data", other)
        self.assertEqual([e["step"] for e in beside["evaluations"]], [1, 3])
        for e in beside["evaluations"]:
            self.assertEqual(set(e), {"step", "loss"})
            self.assertLess(abs(e["loss"] - 5.5), 0.5)
        plain = tandem_json("train", plan, *train)
        self.assertEqual(plain["evaluations"], [])
        self.assertEqual([s["loss"] for s in beside["steps"]], [s["loss"] for s in plain["steps"]])
        kept_back = tandem_json("train", plan, *train, *evaluate)
        self.assertNotEqual([s["loss"] for s in kept_back["steps"]], [s["loss"] for s in plain["steps"]])
        code, _, err = run("train", plan, *train, *evaluate)
        self.assertEqual((code, err.count("\nevaluation after step ")), (0, 2))

    def test_the_evaluations_data_can_be_bad_too(self):
        plan, missing = self.folder.plan(SMALL), self.path("missing.txt")
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 1, "--eval-every", 1, "--eval-data", missing)
        self.assertEqual(code, 3)
        self.assertIn(missing, err)

    def test_a_batch_ramps_up_and_its_simulation_is_of_the_full_one(self):
        ramp = {"start": 2, "increment": 2, "samples": 6}
        plan = self.folder.plan(changed(SMALL, **{"training.batch_rampup": ramp}))
        result = tandem_json("train", plan, "--data", TEXT, "--steps", 6, "--trace", self.path("trace.json"))
        self.assertEqual([s["global_batch_size"] for s in result["steps"]], [2, 4, 8, 8, 8, 8])
        predicted, full = tandem_json("simulate", plan), tandem_json("simulate", self.folder.plan(SMALL, "full.json"))
        self.assertEqual(predicted["step_time_s"], full["step_time_s"])
        constant = [self.folder.plan(changed(SMALL, **{"training.global_batch_size": n}), f"{n}.json") for n in (2, 4, 8)]
        arenas = [tandem_json("simulate", name)["arena_bytes"] for name in constant]
        self.assertEqual(max(arenas), result["arena_bytes"])  # of any batch: holes depend on it
        self.assertIn("step time is that of the full batch; ramp-up of 6 samples before it", predicted["notes"])

    def test_a_post_validated_update_is_trained_synchronised_and_said_so_once(self):
        plan = self.folder.plan(changed(SMALL, **{"parallel.optimizer_sync": "post_validated"}), "after.json")
        code, out, err = run("train", plan, "--data", TEXT, "--steps", 2, "--json")
        self.assertEqual((code, err.count("parallel.optimizer_sync")), (0, 1))
        plain = tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 2)
        self.assertEqual([s["loss"] for s in json.loads(out)["steps"]], [s["loss"] for s in plain["steps"]])

    def test_bad_data_exits_3(self):
        plan = self.folder.plan(SMALL)
        for data in (self.path("missing.txt"), self.folder.file("short.txt", "abc"), str(self.folder.path)):
            code, out, err = run("train", plan, "--data", data, "--steps", 1)
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn(data, err)

    def test_a_vocabulary_smaller_than_the_data_is_refused_by_field(self):
        plan = self.folder.plan(changed(SMALL, **{"model.vocab_size": 100}))
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 1)
        self.assertEqual(code, 3)
        self.assertIn("model.vocab_size", err)

    def test_ctrl_c_keeps_the_finished_steps_and_exits_130(self):
        plan = self.folder.plan(SMALL)
        process = subprocess.Popen([tandem.PROGRAM, "train", plan, "--data", str(TEXT), "--steps", "1000000", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith("step "):
                break
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertGreaterEqual(len(json.loads(out)["steps"]), 1)


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
        self.assertEqual(run("compare", *files, "--tolerance", "1e9", "--memory-tolerance", "0")[0], 0)

    def test_swapped_or_foreign_files_exit_3(self):
        simulated, executed = self.timelines(self.folder.plan(SMALL))
        self.assertEqual(run("compare", executed, simulated)[0], 3)
        self.assertEqual(run("compare", simulated, self.folder.plan(SMALL))[0], 3)
        other = self.folder.plan(changed(SMALL, **{"model.num_layers": 4}))
        self.assertEqual(run("simulate", other, "--timeline", self.path("other.json"))[0], 0)
        code, _, err = run("compare", self.path("other.json"), executed)
        self.assertEqual(code, 3)
        self.assertIn("model.num_layers", err)


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
        for wrong in (again, plan, self.path("missing.json")):
            self.assertEqual(run("simulate", plan, "--routing", wrong)[0], 3, wrong)

    @staticmethod
    def flops(timeline):
        """Of every rank."""
        total = {}
        for lane in timeline["lanes"]:
            for rank in lane["ranks"]:
                total[rank] = sum(timeline["tasks"][span[0]]["flops"] for span in lane["spans"])
        return total


class Explain(WithFolder):
    def test_every_default_and_the_split_are_told(self):
        result = tandem_json("explain", self.folder.plan(SMALL))
        self.assertEqual(result["layers_per_stage"], [1, 1])
        self.assertEqual(result["plan"]["training"]["optimizer"], "adamw")
        self.assertEqual(result["world_size"], 8)
        h, f, v, s = 24, 40, 256, 16
        layer = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h
        self.assertEqual(result["parameters"]["per_layer"], layer)
        self.assertEqual(result["parameters"]["total"], 2 * layer + v * h + s * h + 2 * h)
        text = run("explain", self.folder.plan(SMALL))[1]
        self.assertIn("layers per stage", text)

    def test_the_printed_plan_is_a_plan_again(self):
        plan = tandem_json("explain", self.folder.plan(SMALL))["plan"]
        again = tandem_json("explain", self.folder.plan(plan, "again.json"))["plan"]
        self.assertEqual(plan, again)


def keys_of(value, key=""):
    """Every key of a result as `explain` spells it, with a value of it."""
    found = [(key, value)] if key else []
    if isinstance(value, dict):
        for name, inner in value.items():
            found += keys_of(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        found += keys_of(value[0], key + "[]")
    return found


class ExplainKey(WithFolder):
    A100 = changed(SMALL, **{"cluster": {"preset": "dgx-a100-80gb", "devices": 8}, "training.precision": "bf16",
                             "training.recompute": "full"})

    def test_every_key_of_a_prediction_has_an_explanation_with_its_own_value(self):
        for plan, with_plan in ((SMALL, True), (self.A100, False)):
            file = self.folder.plan(plan)
            for key, value in keys_of(tandem_json("simulate", file)):
                if key.startswith("plan") and not with_plan:
                    continue
                told = tandem_json("explain", file, key)
                self.assertEqual(told["key"], key)
                for part in ("formula", "filled", "range"):
                    self.assertTrue(told[part], (key, part))
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    self.assertEqual(float(told["value"].split()[0]), value, key)

    def test_the_values_filled_in_give_the_value(self):
        file = self.folder.plan(self.A100)
        result = tandem_json("simulate", file)

        def numbers(key):
            filled = tandem_json("explain", file, key)["filled"]
            return [float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\.?\d*", filled)]

        batch, length, seconds = numbers("tokens_per_s")
        self.assertEqual((batch, length), (8, 16))
        self.assertAlmostEqual(seconds, result["step_time_s"], places=6)
        tera, devices, seconds = numbers("hardware_tflops_per_device")
        self.assertEqual(devices, 8)
        shares = [numbers("time_breakdown_s." + name)[0] for name in result["time_breakdown_s"]]
        self.assertAlmostEqual(sum(shares), result["step_time_s"], places=5)
        self.assertEqual(numbers("ranks"), [2, 2, 2, 1])

    def test_facts_come_with_their_source_and_a_role_can_be_asked_for(self):
        file = self.folder.plan(self.A100)
        facts = {(f["part"], f["field"]): f for f in tandem_json("explain", file, "step_time_s")["facts"]}
        self.assertIn("verified: ", facts["device", "memory_bytes_per_s"]["origin"])
        self.assertIn("fitted on", facts["calibration", "memory_share"]["origin"])
        told = tandem_json("explain", file, "mfu")
        only = told["facts"]
        self.assertIn("stas_acc", told["sources"])
        self.assertGreater(len(told["sources"]["stas_acc"]), 10)
        self.assertEqual([f["field"] for f in only], ["peak_flops_per_s"])
        roles = tandem_json("simulate", file)["roles"]
        told = tandem_json("explain", file, f"roles[{len(roles) - 1}].first_rank")
        self.assertEqual(told["value"], str(roles[-1]["first_rank"]))
        text = run("explain", file, "peak_memory_bytes")[1]
        for word in ("formula", "here", "range", "runtime_bytes"):
            self.assertIn(word, text)

    def test_an_unknown_key_is_refused_with_those_there_are(self):
        file = self.folder.plan(SMALL)
        for key in ("step_tim_s", "roles[99].arena_bytes", "roles[x].arena_bytes", "nonsense"):
            code, out, err = run("explain", file, key)
            self.assertEqual((code, out), (3, ""), key)
            for word in (key, "tokens_per_s", "roles[].arena_bytes"):
                self.assertIn(word, err)


class Validate(WithFolder):
    def records(self, *plans):
        lines = [json.dumps({"id": f"r{i}", "plan": plan, "measured": {"step_time_s": 2.0}}) for i, plan in enumerate(plans)]
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

    def test_sets_can_be_chosen_and_kept_out_of_the_mean_and_unknown_ones_are_refused(self):
        file = self.records(SMALL)
        other = self.folder.file("other.jsonl", pathlib.Path(file).read_text(encoding="utf-8"))
        result = tandem_json("validate", "--only", "other", file, other)
        self.assertEqual([s["name"] for s in result["sets"]], ["other"])
        apart = tandem_json("validate", file, other, "--apart", "other")
        self.assertEqual((apart["over_sets"]["sets"], apart["sets"][1]["apart"]), (1, True))
        pooled = tandem_json("validate", "--pool", "other,some-set", "--pool", "other", file, other)["pools"]
        self.assertEqual([(p["name"], p["n"]) for p in pooled], [("some-set+other", 2), ("other", 1)])
        for option in ("--only", "--apart", "--grade", "--pool"):
            code, out, err = run("validate", file, option, "nobody")
            self.assertEqual((code, out), (3, ""))
            self.assertIn("nobody", err)
        self.assertEqual(run("validate", file, "--jobs", "0")[0], 2)
        empty = self.folder.file("nothing.jsonl", "\n")
        code, out, err = run("validate", empty)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("nothing.jsonl: holds no measurement record", err)
        self.assertEqual(tandem_json("validate", "--grade", "B,C", "--only", "other,some-set", file, other)["records"], [])

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

    def test_a_device_without_records_or_constants_is_refused(self):
        for device, word in (("cpu", "fitted"), ("nobody", "nobody"), (self.path("none.json"), "none.json")):
            code, out, err = run("calibrate", device, self.records, "-o", self.path("out.json"))
            self.assertEqual((code, out), (3, ""), device)
            self.assertIn(word, err)
        code, out, err = run("calibrate", self.calibration, self.records, "--without", "some-set", "-o", self.path("out.json"))
        self.assertEqual((code, out), (3, ""))
        self.assertIn("none of the measurements", err)
        empty = self.folder.file("empty.jsonl", "")
        self.assertEqual(run("calibrate", self.calibration, empty, "-o", self.path("out.json"))[0], 3)


class Measure(WithFolder):
    def test_a_measured_table_is_what_the_simulator_then_uses(self):
        table, plan = self.path("cpu.json"), self.folder.plan(SMALL)
        code, _, err = run("measure", "--device", "cpu", "--quick", "-o", table)
        self.assertEqual(code, 0, err)
        generic, measured = tandem_json("simulate", plan), tandem_json("simulate", plan, "--cost-table", table)
        self.assertNotEqual(generic["step_time_s"], measured["step_time_s"])
        self.assertNotEqual(generic["notes"], measured["notes"])

    def test_a_table_written_to_its_own_place_is_found_there(self):
        place, plan = {"TANDEM_MEASURED": self.path("measured")}, self.folder.plan(SMALL)
        code, out, err = run("measure", "--quick", "--json", environment=place)
        self.assertEqual(code, 0, err)
        code, found, _ = run("simulate", plan, "--json", environment=place)
        self.assertEqual((code, json.loads(found)), (0, tandem_json("simulate", plan, "--cost-table", json.loads(out)["file"])))

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
