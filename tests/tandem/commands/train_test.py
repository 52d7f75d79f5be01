#!/usr/bin/env python3
"""Training by the command line: its lines and keys, its checkpoints, what it refuses and what it tells."""
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import time

import tandem
from tandem import SMALL, TEXT, WithFolder, changed, run, tandem_json

TRAIN_KEYS = {"schema_version", "steps", "tokens_per_s", "peak_memory_bytes", "flops", "bytes_sent", "arena_bytes"}

ONE = changed(SMALL, **{"parallel": {"tensor": 1}, "cluster.devices": 1})
COSINE = changed(ONE, **{"training.learning_rate_decay": "cosine", "training.warmup": 2, "training.learning_rate": 0.01})


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
        self.assertEqual(set(result["steps"][0]), {"step", "loss", "grad_norm", "learning_rate", "skipped", "loss_scale", "step_time_s",
                                                    "global_batch_size"})
        self.assertLess(abs(result["steps"][0]["loss"] - 5.545), 0.3)  # ln 256: nothing is known yet
        predicted = tandem_json("simulate", self.folder.plan(SMALL))
        self.assertEqual(result["arena_bytes"], predicted["arena_bytes"])
        self.assertLessEqual({"all_reduce", "send"}, set(result["bytes_sent"]))

    def test_model_flops_are_those_of_the_formula_and_a_host_has_no_mfu(self):
        model, training = SMALL["model"], SMALL["training"]
        h, ffn, layers, vocab = (model[k] for k in ("hidden_size", "ffn_hidden_size", "num_layers", "vocab_size"))
        seq, batch = training["seq_length"], training["global_batch_size"]
        forward = layers * (2 * (4 * h * h + 2 * h * ffn) + 4 * seq * h) + 2 * h * vocab  # of a token
        for recompute in ("none", "full"):
            plan = changed(SMALL, **{"training.recompute": recompute})
            metrics = self.folder.path / "m.jsonl"
            result = tandem_json("train", self.folder.plan(plan), "--data", TEXT, "--steps", 3, "--metrics", metrics)
            self.assertAlmostEqual(result["model_flops_per_s"] * result["step_time_s"] / (3 * forward * seq * batch), 1, delta=1e-9)
            self.assertIsNone(result["mfu"])
            lines = [json.loads(line) for line in metrics.read_text().splitlines()]
            for line in lines:
                self.assertAlmostEqual(line["model_flops_per_s_per_device"] * line["step_time_s"] / (3 * forward * seq * batch / 8), 1, delta=1e-9)
                self.assertAlmostEqual(line["tokens_per_s_per_device"], line["tokens_per_s"] / 8, delta=1e-6 * line["tokens_per_s"])
            self.assertEqual([line["skipped_steps"] for line in lines], [0, 0, 0])
            self.assertEqual(lines[-1]["remaining_s"], 0)
            self.assertGreaterEqual(lines[-1]["elapsed_s"], 0.99 * sum(line["step_time_s"] for line in lines))

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

    def test_metrics_are_a_line_a_step_that_a_resumed_run_goes_on_with(self):
        plan, metrics, kept = self.folder.plan(SMALL), self.folder.path / "m.jsonl", self.folder.path / "kept.safetensors"
        first = tandem_json("train", plan, "--data", TEXT, "--steps", 4, "--eval-every", 2, "--metrics", metrics)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        steps = [line for line in lines if "loss" in line]
        self.assertEqual([line["step"] for line in lines], [0, 1, 1, 2, 3, 3])
        self.assertEqual([line["loss"] for line in steps], [s["loss"] for s in first["steps"]])
        self.assertEqual([line["evaluation_loss"] for line in lines if "loss" not in line], [e["loss"] for e in first["evaluations"]])
        batch, length = SMALL["training"]["global_batch_size"], SMALL["training"]["seq_length"]
        self.assertEqual([line["samples"] for line in steps], [batch * n for n in (1, 2, 3, 4)])
        self.assertEqual([line["tokens"] for line in steps], [batch * length * n for n in (1, 2, 3, 4)])
        for line in steps:
            self.assertAlmostEqual(line["tokens_per_s"] * line["step_time_s"], batch * length, delta=1e-6 * batch * length)
            self.assertAlmostEqual(line["samples_per_s"] * line["step_time_s"], batch, delta=1e-6 * batch)
        self.assertEqual([line["perplexity"] for line in lines if "loss" not in line], [math.exp(e["loss"]) for e in first["evaluations"]])
        tandem_json("train", plan, "--data", TEXT, "--steps", 2, "--schedule-steps", 4, "--save", kept, "--eval-every", 2)
        metrics.write_text(metrics.read_text() + '{"step": 4, "lo')  # a line that a kill cut off
        tandem_json("train", plan, "--data", TEXT, "--steps", 3, "--resume", kept, "--metrics", metrics, "--eval-every", 2)
        again = [json.loads(line) for line in metrics.read_text().splitlines()]
        self.assertEqual([line["step"] for line in again], [0, 1, 1, 2])
        self.assertEqual(again[:3], lines[:3])
        self.assertEqual(again[3]["samples"], 3 * batch)

    def test_the_loss_of_modules_for_further_tokens_stands_apart_in_lines_metrics_record_and_page(self):
        alibi = changed(ONE, **{"model.position_embedding": "alibi"})
        plain = self.folder.plan(alibi, "plain.json")
        plan = self.folder.plan(changed(alibi, **{"model.mtp": {"num_layers": 2, "loss_scale": 0.25}}))
        metrics, timeline, page = self.path("m.jsonl"), self.path("run.json"), self.path("page.html")
        train = ("train", plan, "--data", TEXT, "--steps", 2, "--metrics", metrics, "--timeline", timeline)
        code, out, err = run(*train, "--json")
        self.assertEqual(code, 0, err)
        result, alone = json.loads(out), tandem_json("train", plain, "--data", TEXT, "--steps", 2)
        self.assertEqual(result["steps"][0]["loss"], alone["steps"][0]["loss"])  # the model's own, which modules do not change
        self.assertNotIn("mtp_loss", alone["steps"][0])
        losses = [s["mtp_loss"] for s in result["steps"]]
        for loss in losses:
            self.assertLess(abs(loss - 5.545), 0.3)  # ln 256, whatever its weight is
        lines = [json.loads(line) for line in pathlib.Path(metrics).read_text().splitlines()]
        self.assertEqual([line["mtp_loss"] for line in lines if "loss" in line], losses)
        self.assertEqual([s["mtp_loss"] for s in json.loads(pathlib.Path(timeline).read_text())["run"]["steps"]], losses)
        self.assertIn(f"step     0  loss {result['steps'][0]['loss']:8.5f}  mtp loss {losses[0]:8.5f}  grad norm", err)
        self.assertIn(f"mtp loss                {losses[0]:.4f} -> {losses[1]:.4f}", run(*train)[1])
        self.assertEqual(run("report", timeline, "--out", page)[0], 0)
        self.assertIn('"mtp_loss":', pathlib.Path(page).read_text())
        self.assertEqual(run("report", metrics, "--out", self.path("metrics.html"))[0], 0)
        self.assertIn(f'"mtp_loss":{losses[0]}', pathlib.Path(self.path("metrics.html")).read_text())

    def test_a_file_of_other_lines_is_not_continued_with_metrics(self):
        plan, other, kept = self.folder.plan(ONE), self.folder.path / "other.txt", self.folder.path / "kept.safetensors"
        other.write_text("my notes\n")
        tandem_json("train", plan, "--data", TEXT, "--steps", 1, "--save", kept)
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 2, "--resume", kept, "--metrics", other)
        self.assertEqual(code, 3)
        self.assertIn("is no line of metrics", err)
        self.assertEqual(other.read_text(), "my notes\n")

    def test_texts_are_blended_by_weights_or_lengths(self):
        plan = self.folder.plan(changed(ONE, **{"training.dropout": {"hidden": 0, "attention": 0}}))
        text = TEXT.read_bytes()
        a, b = self.folder.path / "a:1.txt", self.folder.path / "b.txt"
        a.write_bytes(text[:30000])
        b.write_bytes(b"z" * 10000)

        def losses(*data, more=()):
            names = [word for path in data for word in ("--data", path)]
            return [s["loss"] for s in tandem_json("train", plan, *names, "--steps", 12, *more)["steps"]]

        alone = losses(a)
        self.assertEqual(losses(f"7:{a}"), alone)  # one text is no blend
        self.assertEqual(losses(f"0.75:{a}", f"0.25:{b}"), losses(f"3:{a}", f"1:{b}"))  # only ratios count
        self.assertEqual(losses(a, b), losses(f"3:{a}", f"1:{b}"))  # three times as long
        # One letter again and again is learned at once: the more of it, the lower the loss.
        few, many = losses(f"9:{a}", f"1:{b}"), losses(f"1:{a}", f"9:{b}")
        self.assertGreater(alone[-1], few[-1])
        self.assertGreater(few[-1], many[-1])

        kept = self.folder.path / "kept.safetensors"
        losses(f"9:{a}", f"1:{b}", more=("--save", kept))
        _, _, err = run("train", plan, "--data", f"1:{a}", "--data", f"9:{b}", "--steps", 13, "--resume", kept)
        self.assertIn("was trained on another text", err)
        for data, reason in (((f"1:{a}", b), "has no weight"), ((f"0:{a}", f"1:{b}"), "above 0"), ((f"nan:{a}", f"1:{b}"), "above 0")):
            code, _, err = run("train", plan, *[word for path in data for word in ("--data", path)])
            self.assertEqual(code, 3)
            self.assertIn(reason, err)

    def test_an_interval_that_holds_no_evaluation_is_told(self):
        _, _, err = run("train", self.folder.plan(ONE), "--data", TEXT, "--steps", 2, "--eval-every", 5)
        self.assertIn("--eval-every 5: no evaluation falls into steps 0 to 1", err)

    def test_a_finished_checkpoint_is_evaluated_without_a_further_step(self):
        plan, saved = self.folder.plan(SMALL), self.path("done.safetensors")
        other = self.folder.file("other.txt", TEXT.read_bytes()[:20000])
        train = ("--data", TEXT, "--steps", 4)
        evaluate = ("--eval-every", 4, "--eval-steps", 2, "--eval-data", other)
        trained = tandem_json("train", plan, *train, *evaluate, "--save", saved)
        alone = tandem_json("train", plan, *train, *evaluate, "--resume", saved)
        self.assertEqual((alone["steps"], len(alone["evaluations"])), ([], 1))
        self.assertEqual(alone["evaluations"], trained["evaluations"])
        rates = ("step_time_s", "tokens_per_s", "model_flops_per_s")  # there is no step that they could be of
        self.assertEqual([alone[key] for key in rates], [None, None, None])
        self.assertTrue(all(trained[key] > 0 for key in rates))
        self.assertFalse(alone["interrupted"])
        code, _, err = run("train", plan, *train, "--resume", saved)
        self.assertEqual(code, 3)
        self.assertIn("`tandem evaluate` evaluates the checkpoint", err)

    def test_the_evaluations_data_can_be_bad_too(self):
        plan, missing = self.folder.plan(SMALL), self.path("missing.txt")
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 1, "--eval-every", 1, "--eval-data", missing)
        self.assertEqual(code, 3)
        self.assertIn(missing, err)

    def test_bytes_are_not_evaluated_beside_token_ids_nor_ids_beside_bytes(self):
        ids = [7 * i % 200 for i in range(400)]
        header = struct.pack("<3I", 20240520, 1, len(ids)).ljust(1024, b"\0")  # as llm.c writes GPT-2's tokens
        tokens = self.folder.file("ids.bin", header + struct.pack(f"<{len(ids)}H", *ids))
        evaluate = ("train", self.folder.plan(SMALL), "--steps", 1, "--eval-every", 1)
        self.assertEqual(run(*evaluate, "--data", tokens, "--eval-data", tokens)[0], 0)
        for data, other, said in ((tokens, TEXT, "holds a text of bytes, and"), (TEXT, tokens, "holds token ids, and")):
            code, out, err = run(*evaluate, "--data", data, "--eval-data", other)
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn(f"{other}: --eval-data: {said} {data}", err)

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
        self.assertIn("step time is that of the full batch, after a ramp-up of 6 samples", predicted["notes"])

    def trained_without(self, field, value):
        """The plan of a field that training does without: said once, and the losses are those without it."""
        plan = self.folder.plan(changed(SMALL, **{field: value}), "with.json")
        code, out, err = run("train", plan, "--data", TEXT, "--steps", 2, "--json")
        self.assertEqual((code, err.count(field)), (0, 1))
        plain = tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 2)
        self.assertEqual([s["loss"] for s in json.loads(out)["steps"]], [s["loss"] for s in plain["steps"]])
        return plan

    def test_a_post_validated_update_is_trained_synchronised_and_said_so_once(self):
        self.trained_without("parallel.optimizer_sync", "post_validated")

    def test_graphs_of_launches_are_trained_without_and_said_so_once(self):
        plan = self.trained_without("training.cuda_graphs", "iteration")
        self.assertEqual(run("simulate", plan)[0], 4)  # a host that computes itself launches nothing

    def test_a_plan_of_gpus_is_told_to_be_trained_on_processors_without_notes_on_what_it_does_not_say(self):
        gpus = changed(ONE, **{"cluster.preset": "dgx-h100"})
        for plan, noted in ((gpus, False), (changed(gpus, **{"training.cuda_graphs": "iteration"}), True)):
            code, _, err = run("train", self.folder.plan(plan), "--data", TEXT, "--steps", 1)
            self.assertEqual((code, err.count("is trained on this machine's CPUs, not on dgx-h100")), (0, 1), err)
            self.assertEqual("training.cuda_graphs" in err, noted, err)
        self.assertNotIn("this machine's CPUs", run("train", self.folder.plan(ONE), "--data", TEXT, "--steps", 1)[2])

    def test_bad_data_exits_3(self):
        plan = self.folder.plan(SMALL)
        for data in (self.path("missing.txt"), self.folder.file("short.txt", "abc"), str(self.folder.path)):
            code, out, err = run("train", plan, "--data", data, "--steps", 1)
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn(data, err)
        self.assertIn("/dev/zero: data: is no plain file", run("train", plan, "--data", "/dev/zero", "--steps", 1)[2])

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
        self.assertIn("the saved run has done them", err)

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


    def test_a_loss_that_leaves_the_numbers_is_null_and_its_updates_are_told_to_be_skipped(self):
        plan = self.folder.plan(changed(SMALL, **{"training.learning_rate": 1e6, "training.clip_grad": 0}))
        code, out, err = run("train", plan, "--data", TEXT, "--steps", 8, "--json")
        last = json.loads(out)["steps"][-1]
        self.assertEqual((code, last["loss"], last["grad_norm"], last["skipped"]), (7, None, None, True))
        self.assertIn("update skipped", err)
        self.assertIn("not finite in", err)
        self.assertEqual(json.loads(out)["failure"]["step"], 7)
        self.assertNotIn("-nan", err)
        self.assertIn("updates skipped", run("train", plan, "--data", TEXT, "--steps", 8)[1])
        self.assertFalse(any(s["skipped"] for s in tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 2)["steps"]))

    def test_a_text_that_is_read_several_times_is_told_beforehand(self):
        length, batch = ONE["training"]["seq_length"], ONE["training"]["global_batch_size"]
        short = self.folder.file("short.txt", TEXT.read_bytes()[:10 * length + 1])  # ten sequences
        steps = 5
        code, out, err = run("train", self.folder.plan(ONE), "--data", short, "--steps", steps)
        self.assertEqual(code, 0)
        self.assertIn(f"short.txt: has 10 sequences of {length} tokens: the run reads it {steps * batch / 10:.2f} times", err)
        self.assertRegex(out, rf"epochs of the data +{steps * batch / 10:g}\n")
        self.assertEqual(tandem_json("train", self.folder.plan(ONE), "--data", short, "--steps", steps)["epochs"], steps * batch / 10)
        code, out, err = run("train", self.folder.plan(ONE), "--data", short, "--steps", 1)
        self.assertNotIn("the run reads it", err)  # eight of ten
        evaluated = self.folder.file("evaluated.txt", TEXT.read_bytes()[:10 * length + 1])
        train = ("train", self.folder.plan(ONE), "--data", TEXT, "--steps", 1, "--eval-data", evaluated, "--eval-every", 1, "--eval-steps")
        told = f"evaluated.txt: has 10 sequences of {length} tokens: an evaluation of --eval-steps 2 reads it {2 * batch / 10:.2f} times"
        self.assertIn(told, run(*train, 2)[2])
        self.assertNotIn("an evaluation of", run(*train, 1)[2])
        self.assertIn("trained 1 step,", out)

    def diverging(self):
        return self.folder.plan(changed(ONE, **{"training.learning_rate": 1e6, "training.clip_grad": 0}), "diverging.json")

    def test_twenty_steps_in_a_row_that_are_not_finite_end_a_run_and_exit_7(self):
        arguments = ("train", self.diverging(), "--data", TEXT, "--steps", 100)
        code, out, err = run(*arguments, "--json")
        result = json.loads(out)
        last = result["failure"]["step"]
        self.assertEqual((code, len(result["steps"]), result["failure"]["rank"]), (7, last + 1, None))
        self.assertEqual([s["step"] for s in result["steps"] if s["skipped"]], list(range(last - 19, last + 1)))
        self.assertEqual(err.count("tandem: error:"), 1)
        self.assertIn(f"not finite in 20 steps in a row, steps {last - 19} to {last}; lower training.learning_rate (1e+06)", err)
        self.assertEqual(run(*arguments, "--timeline", self.path("kept.json"))[0], 7)

    def test_a_step_that_is_not_finite_saves_nothing_over_the_checkpoint_before_it(self):
        saved, arguments = self.path("run.safetensors"), ("train", self.diverging(), "--data", TEXT)
        code, _, err = run(*arguments, "--steps", 100, "--save", saved, "--save-every", 1)
        self.assertEqual((code, err.count("tandem: error:")), (7, 1))
        good = json.loads(run(*arguments, "--steps", 8, "--json")[1])["steps"]
        done = next(s["step"] for s in good if s["skipped"] or s["loss"] is None)  # as many were finite
        self.assertEqual(err.count(f"stays that of {done} steps"), 2)  # at the first step that is not saved, and at the end
        self.assertIn(f"and --resume {saved}", err)
        before = pathlib.Path(saved).read_bytes()
        code, out, err = run("train", self.folder.plan(ONE), "--data", TEXT, "--steps", done + 1, "--resume", saved, "--json")
        self.assertEqual([s["step"] for s in json.loads(out)["steps"]], [done])
        self.assertEqual(code, 7, err)  # weights of such a rate do not recover
        self.assertEqual(pathlib.Path(saved).read_bytes(), before)
        other = self.path("other.safetensors")
        code, _, err = run(*arguments, "--steps", 8, "--save", other)  # too few to stop at, but nothing to keep either
        self.assertEqual((code, pathlib.Path(other).exists()), (7, False))
        self.assertIn("is not written", err)

    def test_gradients_that_a_loss_scale_drove_out_of_the_numbers_end_no_run(self):
        scaled = {"training.precision": "fp16", "training.loss_scale": {"initial": 2.0 ** 60, "hysteresis": 1}}
        plan, saved = self.folder.plan(changed(ONE, **scaled)), self.path("run.safetensors")
        steps = tandem_json("train", plan, "--data", TEXT, "--steps", 70)["steps"]
        self.assertGreater(sum(s["skipped"] for s in steps), 25)
        self.assertFalse(steps[-1]["skipped"])
        self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 3, "--save", saved)[0], 0)

    def rates(self, steps, *arguments):
        result = tandem_json("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", steps, *arguments)
        return [(s["step"], s["learning_rate"], s["loss"]) for s in result["steps"]]

    def test_a_resumed_run_keeps_the_length_of_the_learning_rates_schedule(self):
        saved, again = self.path("run.safetensors"), self.path("again.safetensors")
        self.rates(4, "--schedule-steps", 10, "--save", saved)
        whole = self.rates(8, "--schedule-steps", 10)
        self.assertEqual(self.rates(6, "--resume", saved, "--save", again), whole[4:6])
        self.assertEqual(self.rates(8, "--resume", again), whole[6:])  # as the plan of `again` says
        err = run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)[2]
        self.assertIn("decays over 10 steps, as in the run that was saved", err)
        self.assertEqual(self.rates(6, "--resume", saved, "--schedule-steps", 6)[1][1], self.rates(6)[5][1])
        saved = self.path("short.safetensors")
        self.rates(4, "--save", saved)
        self.assertEqual([r[1] for r in self.rates(6, "--resume", saved)], [0, 0])  # the schedule ended with the run
        err = run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved, "--schedule-steps", 6)[2]
        self.assertIn("goes on with other hyper-parameters: training.decay_over from 4 to 6", err)

    def test_a_schedule_that_ends_no_decay_is_told(self):
        for plan, steps, told in ((changed(COSINE, **{"training.learning_rate_decay": "constant"}), 4, "changes nothing: training.learning_rate_decay is constant"),
                                  (COSINE, 1, "the decay would begin behind its end, after 2 steps (training.warmup)"),
                                  (changed(COSINE, **{"training.decay_start": 3}), 3, "after 3 steps (training.decay_start)"), (COSINE, 4, None)):
            code, _, err = run("train", self.folder.plan(plan), "--data", TEXT, "--steps", 1, "--schedule-steps", steps)
            self.assertEqual(code, 0, err)
            lines = [line for line in err.splitlines() if "--schedule-steps" in line]
            self.assertEqual(len(lines), 1 if told else 0, err)
            self.assertIn(told or "", "".join(lines))

    def test_a_rhythm_that_saves_only_the_last_step_is_told(self):
        for steps, every, told in ((3, 3, True), (3, 2, False), (1, 1, True)):
            code, _, err = run("train", self.folder.plan(ONE), "--data", TEXT, "--steps", steps, "--save", self.path(f"s{steps}{every}"), "--save-every", every)
            self.assertEqual((code, f"--save-every {every}: only the last step is saved" in err), (0, told), err)

    def test_a_schedule_in_samples_or_tokens_is_kept_too(self):
        for unit, each in (("samples", 8), ("tokens", 128)):
            saved = self.path(f"{unit}.safetensors")
            plan = self.folder.plan(changed(COSINE, **{"training.learning_rate_unit": unit, "training.warmup": 2 * each}))
            rates = lambda *more: [s["learning_rate"] for s in tandem_json("train", plan, "--data", TEXT, *more)["steps"]]
            whole = rates("--steps", 6)
            rates("--steps", 4, "--schedule-steps", 6, "--save", saved)
            self.assertEqual(rates("--steps", 6, "--resume", saved), whole[4:])

    def test_a_resumed_run_that_keeps_its_schedule_can_be_compared_with_its_prediction(self):
        saved, timeline, simulated = self.path("run.safetensors"), self.path("run.json"), self.path("sim.json")
        self.rates(4, "--save", saved)
        self.rates(6, "--resume", saved, "--timeline", timeline)
        self.assertEqual(run("simulate", self.folder.plan(COSINE), "--timeline", simulated)[0], 0)
        code, _, err = run("compare", simulated, timeline)
        self.assertEqual((code, err), (0, ""))

    def test_a_resumed_run_leaves_the_held_out_tenth_alone(self):
        saved, evaluate = self.path("run.safetensors"), ("--eval-every", 10)
        self.rates(4, *evaluate, "--save", saved)
        kept = self.rates(6, *evaluate, "--resume", saved)
        self.assertEqual(self.rates(6, "--resume", saved), kept)
        err = run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)[2]
        self.assertIn("its last tenth stays held out", err)
        self.assertNotIn("another text", err)
        self.assertNotIn("older version", err)

    def test_an_evaluation_on_text_that_a_resumed_run_may_have_trained_on_is_told(self):
        saved, evaluate, note = self.path("run.safetensors"), ("--eval-every", 6), "held no text out: the evaluated part of"
        self.rates(4, "--save", saved)
        resume = ("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)
        err = run(*resume, *evaluate)[2]
        self.assertIn(f"{saved}: {note} {TEXT} may have been trained on; give --eval-data", err)
        self.assertNotIn("another text", err)  # it is the same one
        other = self.folder.file("other.txt", TEXT.read_bytes()[:20000])
        for more in ((), (*evaluate, "--eval-data", other)):
            self.assertNotIn("may have been trained on", run(*resume, *more)[2])
        err = run("train", self.folder.plan(COSINE), "--data", other, "--steps", 6, "--resume", saved, *evaluate)[2]
        self.assertIn("another text", err)

    def test_a_checkpoint_that_says_nothing_of_held_out_text_is_told_in_a_line(self):
        saved = self.path("run.safetensors")
        self.rates(4, "--save", saved)
        whole = pathlib.Path(saved).read_bytes()
        length = int.from_bytes(whole[:8], "little")
        header = json.loads(whole[8:8 + length])
        self.assertEqual(header["__metadata__"].pop("held_out"), "0.0")
        text = json.dumps(header).encode()
        bare = len(text).to_bytes(8, "little") + text + whole[8 + length:-8]
        checksum = 0xcbf29ce484222325
        for byte in bare:
            checksum = (checksum ^ byte) * 0x100000001b3 & 0xffffffffffffffff
        old = self.folder.file("old.safetensors", bare + checksum.to_bytes(8, "little"))
        code, _, err = run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", old)
        self.assertEqual((code, err.count("does not say whether a part of its text was held out")), (0, 1), err)
        self.assertNotIn("older version", run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)[2])

    def test_changed_hyper_parameters_of_a_resumed_run_are_told_in_one_line(self):
        saved = self.path("run.safetensors")
        self.rates(4, "--save", saved)
        other = self.folder.plan(changed(COSINE, **{"training.beta1": 0.8, "training.weight_decay": 0, "training.learning_rate": 0.02}))
        code, _, err = run("train", other, "--data", TEXT, "--steps", 6, "--resume", saved)
        self.assertEqual((code, err.count("other hyper-parameters")), (0, 1))
        self.assertIn("training.learning_rate from 0.01 to 0.02, training.beta1 from 0.9 to 0.8 and training.weight_decay from 0.1 to 0", err)
        self.assertNotIn("other hyper-parameters", run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)[2])

    def test_more_devices_than_processors_are_told(self):
        plan = self.folder.plan(changed(SMALL, **{"cluster.devices": 8}))
        err = run("train", plan, "--data", TEXT, "--steps", 1)[2]
        self.assertEqual("devices share the" in err, (os.cpu_count() or 1) < 8, err)


if __name__ == "__main__":
    tandem.main()
