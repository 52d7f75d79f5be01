#!/usr/bin/env python3
"""Adapters beside frozen weights: what they cost, what every command says of them, checkpoints under other layouts."""
import json
import pathlib

import tandem
from tandem import SMALL, SOURCE, TEXT, WithFolder, changed, run, tandem_json

LORA = {"rank": 4, "alpha": 8}
ADAPTED = changed(SMALL, **{"training.lora": LORA})
SEVENTY = json.loads((SOURCE / "experiments/plans/llama2-70b-lora-h100-8.json").read_text())


class Adapters(WithFolder):
    def test_70b_fits_on_eight_devices_with_adapters_and_not_without(self):
        adapted = tandem_json("simulate", self.folder.plan(SEVENTY))
        whole = tandem_json("simulate", self.folder.plan(changed(SEVENTY, **{"training.lora": None}), "whole.json"), "--allow-oversize")
        self.assertTrue(adapted["fits"])
        self.assertFalse(whole["fits"])
        self.assertEqual(adapted["trained_parameters"], 80 * 16 * (8192 + 10240 + 8192 + 8192))
        self.assertNotIn("trained_parameters", whole)
        # bf16 weights of an eighth of the model; no more than a twentieth of it for everything that adapters keep.
        weights = adapted["memory_bytes"]["weights"]
        self.assertLess(abs(weights / (2 * 68976648192 / 8) - 1), 0.01)
        self.assertLess(adapted["memory_bytes"]["gradients"] + adapted["memory_bytes"]["optimizer"], weights / 20)
        self.assertLess(adapted["step_time_s"], whole["step_time_s"])

    def test_text_and_explain_say_how_much_is_trained(self):
        plan = self.folder.plan(SEVENTY)
        code, out, _ = run("simulate", plan)
        self.assertEqual(code, 0)
        self.assertIn("of adapters 44,564,480, which alone are trained", out)
        self.assertIn("44,564,480 of adapters", run("explain", plan)[1])
        self.assertEqual(tandem_json("explain", plan)["trained_parameters"], 44564480)
        self.assertIn("rank 16; matrices qkv, proj; 80 layers", run("explain", plan, "trained_parameters")[1])

    def test_a_trained_run_joins_its_prediction_task_by_task(self):
        plan = self.folder.plan(ADAPTED)
        simulated, trained = self.path("simulated.json"), self.path("trained.json")
        self.assertEqual(run("simulate", plan, "--timeline", simulated)[0], 0)
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 2, "--timeline", trained)
        self.assertEqual(code, 0, err)
        tasks = json.loads(run("compare", simulated, trained, "--json")[1])["tasks"]
        self.assertEqual((tasks["only_simulated"], tasks["only_executed"]), (0, 0))
        self.assertGreater(tasks["joined"], 500)

    def test_a_checkpoint_resumes_under_another_layout_and_only_with_its_adapters(self):
        plan, saved = self.folder.plan(ADAPTED), self.path("saved")
        self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 2, "--save", saved)[0], 0)
        whole = tandem_json("train", plan, "--data", TEXT, "--steps", 4)
        for layout in ({"tensor": 1, "data": 8, "zero_stage": 3, "pipeline": 1}, {"tensor": 4, "pipeline": 2, "data": 1}):
            other = changed(ADAPTED, **{"parallel": layout, "cluster.devices": 8})
            again = tandem_json("train", self.folder.plan(other, "other.json"), "--data", TEXT, "--steps", 4, "--resume", saved)
            self.assertEqual([s["step"] for s in again["steps"]], [2, 3])
            for a, b in zip(again["steps"], whole["steps"][2:]):
                self.assertLess(abs(a["loss"] / b["loss"] - 1), 1e-5)
        for bad in (SMALL, changed(ADAPTED, **{"training.lora": {"rank": 2}}), changed(ADAPTED, **{"training.lora": {"rank": 4, "targets": ["qkv"]}})):
            code, _, err = run("train", self.folder.plan(bad, "bad.json"), "--data", TEXT, "--steps", 4, "--resume", saved)
            self.assertNotEqual(code, 0)
            self.assertIn("resume", err)

    def test_the_optimizers_states_of_a_checkpoint_are_those_of_adapters(self):
        file = self.path("one.safetensors")
        self.assertEqual(run("train", self.folder.plan(ADAPTED), "--data", TEXT, "--steps", 1, "--save", file)[0], 0)
        content = pathlib.Path(file).read_bytes()
        head = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
        states = [name for name in head if "exp_avg" in name]
        self.assertEqual(len(states), 2 * 2 * 4 * 2)  # moments, layers, matrices, A and B
        self.assertTrue(all("lora_" in name for name in states))
        self.assertTrue(any("qkv.weight" in name for name in head))

    def test_dropout_is_simulated_trained_and_may_change_on_resume(self):
        dropping = changed(ADAPTED, **{"training.lora": {"rank": 4, "dropout": 0.5}})
        plan, saved = self.folder.plan(dropping), self.path("saved")
        self.assertGreater(tandem_json("simulate", plan)["step_time_s"], tandem_json("simulate", self.folder.plan(ADAPTED, "bare.json"))["step_time_s"])
        first = tandem_json("train", plan, "--data", TEXT, "--steps", 3, "--save", saved)["steps"]
        again = tandem_json("train", plan, "--data", TEXT, "--steps", 3)["steps"]
        self.assertEqual([s["loss"] for s in first], [s["loss"] for s in again])
        bare = tandem_json("train", self.folder.plan(changed(dropping, **{"training.lora": {"rank": 4}}), "less.json"), "--data", TEXT, "--steps", 3)
        self.assertEqual(first[0]["loss"], bare["steps"][0]["loss"])  # B begins at 0
        self.assertNotEqual(first[2]["loss"], bare["steps"][2]["loss"])
        code, _, err = run("train", self.folder.plan(changed(dropping, **{"training.lora.dropout": 0.1}), "other.json"), "--data", TEXT, "--steps", 4, "--resume", saved)
        self.assertEqual(code, 0, err)
        self.assertIn("training.lora.dropout", err)

    def test_dropout_beside_routed_experts_is_simulated_only(self):
        lora = {"rank": 2, "dropout": 0.1, "targets": ["qkv", "experts.fc1"]}
        moe = changed(SMALL, **{"model.moe": {"num_experts": 4, "ffn_hidden_size": 16}, "parallel": {"data": 4, "expert": 2}, "cluster.devices": 4, "training.lora": lora})
        plan = self.folder.plan(moe)
        self.assertEqual(tandem_json("simulate", plan)["trained_parameters"], 2 * (2 * (24 + 72) + 4 * 2 * (24 + 16)))
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 1)
        self.assertEqual(code, 4, err)
        self.assertRegex(err, "training.lora.dropout = 0.1: simulated only: .*set it to 0")
        self.assertEqual(run("train", self.folder.plan(changed(moe, **{"training.lora.dropout": None}), "none.json"), "--data", TEXT, "--steps", 1)[0], 0)

    def test_search_finds_a_layout_for_adapters(self):
        base = changed(SEVENTY, **{"model": {"preset": "llama2-7b"}, "parallel": {}, "training.seq_length": 4096})
        found = tandem_json("search", self.folder.plan(base))
        self.assertGreater(len(found["best"]), 0)

    def test_what_they_do_not_stand_beside_is_refused_by_name(self):
        for field, value, named in (("model.mtp", {"num_layers": 1}, "model.mtp.num_layers"), ("parallel.schedule", "zb-h1", "parallel.schedule")):
            code, _, err = run("simulate", self.folder.plan(changed(ADAPTED, **{field: value})))
            self.assertEqual(code, 4, err)
            self.assertIn(named, err)
            self.assertIn("training.lora", err)


if __name__ == "__main__":
    tandem.main()
