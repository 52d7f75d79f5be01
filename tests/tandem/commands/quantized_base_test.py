#!/usr/bin/env python3
"""Adapters beside frozen weights in 4 bits (QLoRA): what they cost, what training computes with them, checkpoints, refusals."""
import json
import pathlib

import tandem
from tandem import SMALL, SOURCE, TEXT, WithFolder, changed, run, tandem_json

LORA = {"rank": 4, "alpha": 8}
NF4 = {**LORA, "base": "nf4"}
WIDE = {"model.hidden_size": 128, "model.ffn_hidden_size": 256, "parallel": {"data": 2}, "cluster.devices": 2}
QUANTIZED = changed(SMALL, **WIDE, **{"training.lora": NF4})
PLAIN = changed(SMALL, **WIDE, **{"training.lora": LORA})
SEVENTY = json.loads((SOURCE / "experiments/plans/llama2-70b-lora-h100-8.json").read_text())


def losses(result):
    return [step["loss"] for step in result["steps"]]


def content(file):
    """The bytes of a checkpoint's tensors, by name."""
    whole = pathlib.Path(file).read_bytes()
    n = int.from_bytes(whole[:8], "little")
    head = json.loads(whole[8:8 + n])
    return {name: (t["dtype"], whole[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]) for name, t in head.items() if name != "__metadata__"}


class QuantizedBase(WithFolder):
    def train(self, plan, *more, steps=3, name="plan.json"):
        return tandem_json("train", self.folder.plan(plan, name), "--data", TEXT, "--steps", steps, *more)

    def test_70b_takes_a_quarter_of_the_weights_and_longer(self):
        """33 bytes for 64 elements of a matrix, or 36, in place of 128."""
        simulated = {}
        for name, lora in (("plain", {}), ("nf4", {"base": "nf4"}), ("double", {"base": "nf4", "double_quantization": True})):
            plan = changed(SEVENTY, **{"training.lora": {**SEVENTY["training"]["lora"], **lora}})
            simulated[name] = tandem_json("simulate", self.folder.plan(plan, name + ".json"))
        weights = {name: s["memory_bytes"]["weights"] for name, s in simulated.items()}
        matrices = 80 * (10240 * 8192 + 8192 * 8192 + 3 * 28672 * 8192) / 8
        self.assertLess(abs(weights["plain"] - weights["nf4"] - matrices * (2 - 36 / 64)), 0.001 * matrices)
        self.assertLess(abs(weights["nf4"] - weights["double"] - matrices * (3 / 64 - 8 / 16384)), 0.001 * matrices)
        times = {name: s["step_time_s"] for name, s in simulated.items()}
        self.assertLess(times["plain"], times["double"])
        self.assertLess(times["double"], times["nf4"])
        said = run("simulate", self.folder.path / "nf4.json")[1]
        self.assertRegex(said, "quantized frozen weights")
        self.assertRegex(said, "time of dequantizing .*never compared with bitsandbytes")

    def test_training_resumes_bit_for_bit_from_the_dequantized_numbers(self):
        for saved in (self.path("saved.safetensors"), self.path("folder")):
            self.train(QUANTIZED, "--save", saved, steps=2)
            self.assertEqual(losses(self.train(QUANTIZED, "--resume", saved, steps=5)), losses(self.train(QUANTIZED, steps=5))[2:])
        self.assertEqual(content(self.path("saved.safetensors"))["layer0.qkv.weight"][0], "F32")
        self.assertNotEqual(losses(self.train(QUANTIZED))[0], losses(self.train(PLAIN, name="plain.json"))[0])
        code, _, err = run("train", self.folder.plan(PLAIN, "plain.json"), "--data", TEXT, "--steps", 4, "--resume", saved)
        self.assertNotEqual(code, 0)
        self.assertIn("training.lora", err)

    def test_the_frozen_weights_are_near_those_of_the_plain_plan_and_stay(self):
        first, last, plain = (self.path(name) for name in ("first.safetensors", "last.safetensors", "plain.safetensors"))
        self.train(QUANTIZED, "--save", first, steps=1)
        self.train(QUANTIZED, "--save", last, steps=3)
        self.train(PLAIN, "--save", plain, steps=1, name="plain.json")
        one, three, wide = content(first), content(last), content(plain)
        self.assertEqual(one.keys(), wide.keys())
        import array
        for name in one:
            if name.endswith(".weight") and not name.startswith("exp_avg"):
                self.assertEqual(one[name], three[name], name)
            if name in ("layer0.fc2.weight", "layer1.qkv.weight"):
                near, exact = array.array("f", one[name][1]), array.array("f", wide[name][1])
                for block in range(0, len(exact), 64):
                    scale = max(map(abs, exact[block:block + 64]))
                    off = [abs(a - b) for a, b in zip(near[block:block + 64], exact[block:block + 64])]
                    self.assertLessEqual(max(off), 0.1520 * scale)  # half the widest gap, between -1 and -0.696
                    self.assertGreater(max(off), 0)
        self.assertEqual(one["layer0.qkv.bias"], wide["layer0.qkv.bias"])
        self.assertEqual(one["embedding.word.weight"], wide["embedding.word.weight"])

    def test_layouts_agree_and_a_checkpoint_resumes_under_another(self):
        saved = self.path("saved")
        whole = self.train(QUANTIZED, "--save", saved, steps=2)
        for layout, devices in (({"data": 2, "zero_stage": 2}, 2), ({"tensor": 2}, 2), ({"pipeline": 2, "data": 2}, 4)):
            other = changed(QUANTIZED, **{"parallel": layout, "cluster.devices": devices})
            for a, b in zip(losses(self.train(other, steps=2, name="other.json")), losses(whole)):
                self.assertLess(abs(a / b - 1), 1e-5)
            again = losses(self.train(other, "--resume", saved, steps=3, name="other.json"))
            self.assertEqual(len(again), 1)
        types = changed(QUANTIZED, **{"training.precision": "bf16"})
        self.assertLess(abs(losses(self.train(types, steps=1, name="bf16.json"))[0] / losses(whole)[0] - 1), 0.01)

    def test_a_trained_run_joins_its_prediction_task_by_task(self):
        plan, simulated, trained = self.folder.plan(QUANTIZED), self.path("simulated.json"), self.path("trained.json")
        self.assertEqual(run("simulate", plan, "--timeline", simulated)[0], 0)
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 2, "--timeline", trained)
        self.assertEqual(code, 0, err)
        tasks = json.loads(run("compare", simulated, trained, "--json")[1])["tasks"]
        self.assertEqual((tasks["only_simulated"], tasks["only_executed"]), (0, 0))

    def test_double_quantization_is_simulated_only(self):
        double = self.folder.plan(changed(QUANTIZED, **{"training.lora": {**NF4, "double_quantization": True}}))
        self.assertEqual(run("simulate", double)[0], 0)
        code, _, err = run("train", double, "--data", TEXT, "--steps", 1)
        self.assertEqual(code, 4, err)
        self.assertRegex(err, "training.lora.double_quantization = true: simulated only: .*set it to false")

    def test_what_it_does_not_stand_beside_is_refused_by_name(self):
        for changes, named in (({"parallel": {"data": 2, "zero_stage": 3}}, "parallel.zero_stage"), ({"model.ffn_hidden_size": 250}, "training.lora.base"),
                               ({"model.moe": {"num_experts": 2, "ffn_hidden_size": 64}}, "model.moe.num_experts")):
            code, _, err = run("simulate", self.folder.plan(changed(QUANTIZED, **changes)))
            self.assertEqual(code, 4, err)
            self.assertIn(named, err)
        code, _, err = run("simulate", self.folder.plan(changed(QUANTIZED, **{"training.lora": {**LORA, "base": "int8"}})))
        self.assertEqual(code, 3, err)
        self.assertIn("training.lora.base", err)
        code, out, _ = run("simulate", self.folder.plan(changed(QUANTIZED, **{"training.lora": {**LORA, "double_quantization": True}})))
        self.assertEqual(code, 0)
        self.assertIn("training.lora.double_quantization", out)


if __name__ == "__main__":
    tandem.main()
