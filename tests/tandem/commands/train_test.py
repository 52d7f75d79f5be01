#!/usr/bin/env python3
"""Training by the command line: its lines and keys, what it refuses and what it tells."""
import json
import math
import os
import pathlib

import tandem
from tandem import SMALL, TEXT, WithFolder, changed, run, tandem_json

TRAIN_KEYS = {"schema_version", "steps", "tokens_per_s", "peak_memory_bytes", "flops", "bytes_sent", "arena_bytes"}

ONE = changed(SMALL, **{"parallel": {"tensor": 1}, "cluster.devices": 1})


class Train(WithFolder):
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

    def test_a_launchers_variables_and_presets_that_are_nowhere_are_told(self):
        plan = self.folder.plan(SMALL)
        err = run("train", plan, "--data", TEXT, "--steps", 1, environment={"WORLD_SIZE": "4", "RANK": "1"})[2]
        self.assertIn("WORLD_SIZE=4 is not used", err)
        self.assertNotIn("is not used", run("train", plan, "--data", TEXT, "--steps", 1, environment={"WORLD_SIZE": "1"})[2])
        code, out, err = run("simulate", plan, environment={"TANDEM_PRESETS": self.path("nowhere")})
        self.assertEqual((code, out), (3, ""))
        self.assertIn("TANDEM_PRESETS", err)

    def test_more_devices_than_processors_are_told(self):
        plan = self.folder.plan(changed(SMALL, **{"cluster.devices": 8}))
        err = run("train", plan, "--data", TEXT, "--steps", 1)[2]
        self.assertEqual("devices share the" in err, (os.cpu_count() or 1) < 8, err)


if __name__ == "__main__":
    tandem.main()
