#!/usr/bin/env python3
"""What scripts rely on: keys, streams, exit codes."""
import json
import os
import pathlib
import signal
import subprocess
import time

import tandem
from tandem import SMALL, TEXT, WithFolder, changed, run, tandem_json

SIMULATE_KEYS = {
    "schema_version", "step_time_s", "tokens_per_s", "samples_per_s", "model_tflops_per_device",
    "hardware_tflops_per_device", "mfu", "hfu", "peak_memory_bytes", "arena_bytes", "live_peak_bytes", "fits",
    "bubble_fraction", "time_breakdown_s", "memory_bytes", "plan",
}
MEMORY_KINDS = {"weights", "gradients", "optimizer", "activations", "communication", "workspace", "runtime"}
TRAIN_KEYS = {"schema_version", "steps", "tokens_per_s", "peak_memory_bytes", "flops", "bytes_sent", "arena_bytes"}


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
            for command in ("simulate", "validate", "calibrate"):
                self.assertIn(code, run(command, "--help")[1])

    def test_a_bad_command_line_points_to_the_help_of_its_command(self):
        self.assertTrue(run("simulate", "plan.json", "--jsn")[2].endswith("; see tandem simulate --help\n"))
        self.assertEqual(run("simulat"), (2, "", 'tandem: error: "simulat" is no command: did you mean "simulate"?; see tandem --help\n'))
        self.assertIn("there are simulate, train", run("zzz")[2])

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
    def test_a_rank_that_fails_is_named_with_step_and_reason_behind_the_steps_before_it(self):
        moe = changed(SMALL, **{"parallel": {"data": 4, "expert": 4}, "cluster.devices": 4,
                                "model.moe": {"num_experts": 8, "experts_per_token": 1, "rows_bound": 1.05}})
        arguments = ("train", self.folder.plan(moe), "--data", TEXT, "--steps", 50)
        code, out, err = run(*arguments, "--json")
        self.assertEqual(code, 7)
        result = json.loads(out)
        failure = result["failure"]
        self.assertEqual(failure["during"], "training")
        self.assertEqual([s["step"] for s in result["steps"]], list(range(failure["step"])))
        self.assertLess(failure["rank"], 4)
        self.assertIn("rows_bound", failure["reason"])
        self.assertIn(f"rank {failure['rank']} failed in step {failure['step']}: {failure['reason']}", err)
        self.assertEqual(run(*arguments)[0], 7)
        self.assertIsNone(tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 1)["failure"])

    def test_a_step_to_keep_without_a_file_to_keep_it_in_is_refused(self):
        code, out, err = run("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 2, "--timeline-step", 1)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("give --timeline or --trace", err)

    def test_training_prints_documented_keys_and_agrees_with_the_plan(self):
        result = tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 3)
        self.assertLessEqual(TRAIN_KEYS, set(result))
        self.assertEqual([s["step"] for s in result["steps"]], [0, 1, 2])
        self.assertEqual(set(result["steps"][0]), {"step", "loss", "grad_norm", "learning_rate", "skipped", "step_time_s",
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

    def test_graphs_of_launches_are_trained_without_and_said_so_once(self):
        plan = self.folder.plan(changed(SMALL, **{"training.cuda_graphs": "iteration"}), "graphs.json")
        code, out, err = run("train", plan, "--data", TEXT, "--steps", 2, "--json")
        self.assertEqual((code, err.count("training.cuda_graphs")), (0, 1))
        plain = tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 2)
        self.assertEqual([s["loss"] for s in json.loads(out)["steps"]], [s["loss"] for s in plain["steps"]])
        self.assertEqual(run("simulate", plan)[0], 4)  # a host that computes itself launches nothing

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

    def interrupted(self, signal_number, *arguments):
        """What a long training leaves that is sent a signal: its exit code and its JSON."""
        process = subprocess.Popen([tandem.PROGRAM, "train", self.folder.plan(SMALL), "--data", str(TEXT), "--steps", "1000000",
                                    "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith("step "):
                break
        time.sleep(0.05)
        process.send_signal(signal_number)
        out, _ = process.communicate(timeout=60)
        return process.returncode, json.loads(out)

    def test_ctrl_c_and_its_like_keep_the_finished_steps_and_exit_130(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            code, result = self.interrupted(number)
            self.assertEqual(code, 130, number)
            self.assertGreaterEqual(len(result["steps"]), 1)
            self.assertGreater(result["flops"], 0)

    def test_an_interrupted_run_leaves_its_last_timeline_and_a_checkpoint_to_go_on_from(self):
        saved, timeline, simulated = self.path("run.safetensors"), self.path("run.json"), self.path("sim.json")
        code, result = self.interrupted(signal.SIGTERM, "--save", saved, "--timeline", timeline)
        done = len(result["steps"])
        self.assertEqual(code, 130)
        plan = self.folder.plan(SMALL)
        self.assertEqual(run("simulate", plan, "--timeline", simulated)[0], 0)
        self.assertEqual(run("compare", simulated, timeline)[0], 0)
        rest = tandem_json("train", plan, "--data", TEXT, "--steps", done + 2, "--resume", saved)
        whole = tandem_json("train", plan, "--data", TEXT, "--steps", done + 2)
        self.assertEqual([(s["step"], s["loss"], s["grad_norm"]) for s in rest["steps"]],
                         [(s["step"], s["loss"], s["grad_norm"]) for s in whole["steps"][done:]])

    def test_a_killed_run_leaves_a_whole_checkpoint(self):
        saved, plan = self.path("run.safetensors"), self.folder.plan(SMALL)
        process = subprocess.Popen([tandem.PROGRAM, "train", plan, "--data", str(TEXT), "--steps", "1000000", "--save", saved,
                                    "--save-every", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith("step     3"):
                break
        process.kill()
        process.communicate(timeout=60)
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 1, "--resume", saved)
        self.assertEqual(code, 3)  # it is whole: what is refused is that no step is left
        self.assertIn("none is left", err)

    def test_a_checkpoint_that_is_missing_damaged_or_of_another_model_exits_3(self):
        plan, saved = self.folder.plan(SMALL), self.path("a.safetensors")
        self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 1, "--save", saved)[0], 0)
        whole = pathlib.Path(saved).read_bytes()
        cut = self.folder.file("cut.safetensors", whole[:-100])
        other = self.folder.plan(changed(SMALL, **{"model.hidden_size": 48}), "other.json")
        for arguments, said in (((plan, self.path("none")), "cannot be read"), ((plan, cut), "cut short"),
                                ((plan, plan), "is not a checkpoint"), ((other, saved), "model.hidden_size = 24: the plan has 48")):
            code, out, err = run("train", arguments[0], "--data", TEXT, "--steps", 2, "--resume", arguments[1])
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn(said, err)
        text = self.folder.file("other.txt", "a" * 1000)
        code, _, err = run("train", plan, "--data", text, "--steps", 2, "--resume", saved)
        self.assertEqual(code, 0)
        self.assertIn("another text", err)

    def test_a_launchers_variables_and_presets_that_are_nowhere_are_told(self):
        plan = self.folder.plan(SMALL)
        err = run("train", plan, "--data", TEXT, "--steps", 1, environment={"WORLD_SIZE": "4", "RANK": "1"})[2]
        self.assertIn("WORLD_SIZE=4 is not used", err)
        self.assertNotIn("is not used", run("train", plan, "--data", TEXT, "--steps", 1, environment={"WORLD_SIZE": "1"})[2])
        code, out, err = run("simulate", plan, environment={"TANDEM_PRESETS": self.path("nowhere")})
        self.assertEqual((code, out), (3, ""))
        self.assertIn("TANDEM_PRESETS", err)

    def test_what_a_killed_save_left_is_removed_by_the_next_one_and_told(self):
        plan, saved = self.folder.plan(SMALL), self.path("run.safetensors")
        gone = subprocess.Popen(["true"])
        gone.wait()
        left = self.folder.file(f"run.safetensors.{gone.pid}.new", "half a checkpoint")
        os.utime(left, (0, 0))
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 1, "--save", saved)
        self.assertEqual(code, 0)
        self.assertIn(f"removed {left}", err)
        self.assertFalse(pathlib.Path(left).exists())

    def test_two_runs_that_save_the_same_file_leave_a_whole_one(self):
        plan, saved = self.folder.plan(SMALL), self.path("same.safetensors")
        runs = [subprocess.Popen([tandem.PROGRAM, "train", plan, "--data", str(TEXT), "--steps", "40", "--save", saved, "--save-every",
                                  "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for process in runs:
            err = process.communicate(timeout=120)[1]
            self.assertEqual(process.returncode, 0, err)
            self.assertNotIn("cannot be written", err)
        self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 41, "--resume", saved)[0], 0)

    def test_a_loss_that_leaves_the_numbers_is_null_and_its_updates_are_told_to_be_skipped(self):
        plan = self.folder.plan(changed(SMALL, **{"training.learning_rate": 1e6, "training.clip_grad": 0}))
        code, out, err = run("train", plan, "--data", TEXT, "--steps", 8, "--json")
        last = json.loads(out)["steps"][-1]
        self.assertEqual((code, last["loss"], last["grad_norm"], last["skipped"]), (0, None, None, True))
        self.assertIn("update skipped", err)
        self.assertNotIn("-nan", err)
        self.assertIn("updates skipped", run("train", plan, "--data", TEXT, "--steps", 8)[1])
        self.assertFalse(any(s["skipped"] for s in tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 2)["steps"]))

    def test_more_devices_than_processors_are_told(self):
        plan = self.folder.plan(changed(SMALL, **{"cluster.devices": 8}))
        err = run("train", plan, "--data", TEXT, "--steps", 1)[2]
        self.assertEqual("devices share the" in err, (os.cpu_count() or 1) < 8, err)


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
        self.assertRegex(err, r"training\.batch_rampup: .*batch of 4: .*--timeline-step")
        self.assertIn(run("compare", simulated, after)[0], (0, 6))


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
    def test_a_measured_table_is_what_the_simulator_then_uses(self):
        table, plan = self.path("cpu.json"), self.folder.plan(SMALL)
        code, _, err = run("measure", "--device", "cpu", "--quick", "-o", table)
        self.assertEqual(code, 0, err)
        generic, measured = tandem_json("simulate", plan), tandem_json("simulate", plan, "--cost-table", table)
        self.assertNotEqual(generic["step_time_s"], measured["step_time_s"])
        self.assertNotEqual(generic["notes"], measured["notes"])
        # in another type the table says nothing, which is no reason to predict as if there were none
        double = self.folder.plan(changed(SMALL, **{"training.precision": "fp64"}), "double.json")
        code, out, err = run("simulate", double, "--cost-table", table)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("entries = fp32: the plan computes in fp64", err)
        self.assertIn("measure --precision fp64", err)
        (self.folder.path / "cpu-host.json").write_bytes(pathlib.Path(table).read_bytes())
        place = {"TANDEM_MEASURED": str(self.folder.path)}
        code, _, err = run("simulate", double, environment=place)
        self.assertEqual(code, 0)
        self.assertIn("was measured in fp32; the plan computes in fp64", err)
        self.assertNotIn("was measured in", run("simulate", plan, environment=place)[2])

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
