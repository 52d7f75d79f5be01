#!/usr/bin/env python3
"""Adapters in PEFT's format: a training begins with PEFT's loss, and its adapters come back byte for byte."""
import json
import pathlib
import sys

import tandem
from tandem import SOURCE, WithFolder, run, tandem_json

sys.path.insert(0, str(SOURCE / "tests" / "fixtures"))
import formula_weights as formula  # noqa: E402

MODELS = json.loads((SOURCE / "tests" / "fixtures" / "transformers_losses.json").read_text())
ORACLE = json.loads((SOURCE / "tests" / "fixtures" / "peft_losses.json").read_text())
LAYOUTS = {"one rank": {}, "tensor 2, pipeline 2": {"tensor": 2, "pipeline": 2}, "tensor 2, data 2, zero 3": {"tensor": 2, "data": 2, "zero_stage": 3}}
LOSS = 1e-6  # relative; both sides compute in fp32
TARGETS = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "c_attn": "qkv", "qkv_proj": "qkv", "o_proj": "proj", "attn.c_proj": "proj",
           "gate_proj": "fc1", "up_proj": "fc1", "gate_up_proj": "fc1", "c_fc": "fc1", "down_proj": "fc2", "mlp.c_proj": "fc2"}
OWN_TARGETS = TARGETS | {"q_proj": "q", "k_proj": "k", "v_proj": "v", "gate_proj": "gate", "up_proj": "up"}  # each with an A of its own
ORDER = ("qkv", "q", "k", "v", "proj", "fc1", "gate", "up", "fc2")


def factor(config):
    return config["lora_alpha"] / (config["r"] ** 0.5 if config["use_rslora"] else config["r"])


def targets_of(name):
    names = OWN_TARGETS if "model" in ORACLE[name] else TARGETS
    return [t for t in ORDER if t in {names[m] for m in ORACLE[name]["modules"]}]


class Adapters(WithFolder):
    def setUp(self):
        super().setUp()
        self.data = self.folder.file("tokens.bin", formula.llmc_tokens(formula.tokens()))

    def model(self, name):
        name = ORACLE.get(name, {}).get("model", name)
        folder = self.folder.path / name
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(MODELS[name]["config"]))
        (folder / "model.safetensors").write_bytes(formula.safetensors(MODELS[name]["shapes"]))
        return folder

    def adapter(self, name, config=(), shapes=None, value=None):
        value = value or (formula.values if "model" in ORACLE[name] else formula.adapter_values)
        folder = self.folder.path / (name + "-adapter")
        folder.mkdir(exist_ok=True)
        (folder / "adapter_config.json").write_text(json.dumps(ORACLE[name]["config"] | {"target_modules": ORACLE[name]["modules"]} | dict(config)))
        (folder / "adapter_model.safetensors").write_bytes(formula.safetensors(shapes or ORACLE[name]["shapes"], value=value))
        return folder

    def plan(self, name, layout=(), **lora):
        parallel, said = dict(layout), ORACLE[name]["config"]
        ranks = parallel.get("tensor", 1) * parallel.get("pipeline", 1) * parallel.get("data", 1)
        lora = {"rank": said["r"], "alpha": factor(said) * said["r"], "targets": targets_of(name), **lora}
        return self.folder.plan({"model": {"preset": str(self.model(name) / "config.json")}, "parallel": parallel,
                                 "training": {"seq_length": formula.LENGTH, "micro_batch_size": 1, "global_batch_size": formula.SEQUENCES,
                                              "precision": "fp32", "learning_rate": 0, "lora": lora},
                                 "cluster": {"preset": "cpu-host", "devices": 1, "override": {"ranks_per_device": ranks}}})

    def refused(self, message, code, *command):
        found, out, err = run(*command, "--json")
        self.assertEqual((found, out), (code, ""), err)
        self.assertRegex(err, message)

    def test_a_training_begins_with_the_loss_of_peft_and_gives_the_adapter_back(self):
        for name, oracle in ORACLE.items():
            folder, adapter = self.model(name), self.adapter(name)
            for number, (layout, parallel) in enumerate(LAYOUTS.items()):
                with self.subTest(model=name, layout=layout):
                    saved, out = self.path(f"{name}{number}"), self.folder.path / f"{name}-out{number}"
                    step = tandem_json("train", self.plan(name, parallel), "--data", self.data, "--weights", folder, "--adapter", adapter,
                                       "--save", saved)["steps"][0]
                    self.assertLess(abs(step["loss"] / oracle["loss"] - 1), LOSS)
                    done = tandem_json("export", saved, "--to", "peft", "--out", out, "--config", folder)
                    self.assertEqual(done["files"], ["adapter_model.safetensors"])
                    self.assertEqual(sorted(p.name for p in out.iterdir()), ["adapter_config.json", "adapter_model.safetensors"])
                    self.assertEqual(formula.read_safetensors((out / "adapter_model.safetensors").read_bytes()),
                                     formula.read_safetensors((adapter / "adapter_model.safetensors").read_bytes()))
                    config = json.loads((out / "adapter_config.json").read_text())
                    same = [k for k in oracle["config"] if k not in ("lora_alpha", "use_rslora")]
                    self.assertEqual({k: config[k] for k in same}, {k: oracle["config"][k] for k in same})
                    self.assertLess(abs(factor(config) / factor(oracle["config"]) - 1), 1e-12)
                    modules = {n.rsplit(".", 2)[0] for n in oracle["shapes"]}
                    self.assertTrue(all(any(m.endswith("." + t) for t in config["target_modules"]) for m in modules))

    def test_a_trained_adapter_beside_its_model_has_the_loss_of_the_merged_export(self):
        for name in ("llama", "llama own", "llama own q, v"):
            with self.subTest(adapter=name):
                self.merged_export_has_the_same_loss(name)

    def merged_export_has_the_same_loss(self, name):
        folder, adapter = self.model(name), self.adapter(name)
        plan = json.loads(pathlib.Path(self.plan(name)).read_text())
        plan["training"]["learning_rate"] = 0.01
        saved, out, merged = self.path(name + "-saved"), self.folder.path / (name + "-peft"), self.folder.path / (name + "-merged")
        tandem_json("train", self.folder.plan(plan), "--data", self.data, "--weights", folder, "--adapter", adapter, "--steps", 3, "--save", saved)
        tandem_json("export", saved, "--to", "peft", "--out", out)
        tandem_json("export", saved, "--out", merged)
        beside = tandem_json("train", self.plan(name), "--data", self.data, "--weights", folder, "--adapter", out)["steps"][0]["loss"]
        del plan["training"]["lora"]
        one = tandem_json("train", self.folder.plan(plan), "--data", self.data, "--weights", merged)["steps"][0]["loss"]
        self.assertLess(abs(beside / one - 1), LOSS)
        self.assertLess(beside, 0.999 * ORACLE[name]["loss"])

    def test_each_expert_has_an_adapter_whose_loss_is_that_of_merged_matrices(self):
        said, rank, scale = MODELS["qwen3_moe"], 2, 1.5
        modules = [n.removesuffix(".weight") for n in said["shapes"] if ".experts." in n]
        shapes = {}
        for module in modules:
            rows, cols = said["shapes"][module + ".weight"]
            shapes[f"base_model.model.{module}.lora_A.weight"], shapes[f"base_model.model.{module}.lora_B.weight"] = [rank, cols], [rows, rank]

        def merged(name, shape):
            w, module = formula.values(name, shape), "base_model.model." + name.removesuffix(".weight")
            if module + ".lora_A.weight" not in shapes:
                return w
            rows, cols = shape
            a = formula.adapter_values(module + ".lora_A.weight", [rank, cols])
            b = formula.adapter_values(module + ".lora_B.weight", [rows, rank])
            return [w[r * cols + c] + scale * sum(b[r * rank + k] * a[k * cols + c] for k in range(rank)) for r in range(rows) for c in range(cols)]

        folder, adapter, whole = self.model("qwen3_moe"), self.folder.path / "adapter", self.folder.path / "whole"
        for place, config, content in ((adapter, {"peft_type": "LORA", "r": rank, "lora_alpha": 3, "lora_dropout": 0.25}, formula.safetensors(shapes, value=formula.adapter_values)),
                                       (whole, said["config"], formula.safetensors(said["shapes"], value=merged))):
            place.mkdir()
            (place / ("adapter_config.json" if place == adapter else "config.json")).write_text(json.dumps(config))
            (place / ("adapter_model.safetensors" if place == adapter else "model.safetensors")).write_bytes(content)

        def plan(parallel, lora, name):
            return self.folder.plan({"model": {"preset": str(folder / "config.json")}, "parallel": parallel,
                                     "training": {"seq_length": formula.LENGTH, "micro_batch_size": 1, "global_batch_size": formula.SEQUENCES,
                                                  "precision": "fp32", "learning_rate": 0, "lora": lora},
                                     "cluster": {"preset": "cpu-host", "devices": 1, "override": {"ranks_per_device": parallel.get("data", 1)}}}, name)

        expected = tandem_json("train", plan({}, {"rank": 0}, "whole.json"), "--data", self.data, "--weights", whole)["steps"][0]["loss"]
        bare = tandem_json("train", plan({}, {"rank": 0}, "whole.json"), "--data", self.data, "--weights", folder)["steps"][0]["loss"]
        self.assertGreater(abs(expected / bare - 1), 1e-3)
        lora = {"rank": rank, "alpha": 3, "targets": ["experts.fc1", "experts.fc2"]}
        for number, parallel in enumerate(({}, {"data": 2, "expert": 2}, {"data": 4, "expert": 4, "zero_stage": 3})):
            with self.subTest(layout=parallel):
                saved, out, again = self.path(f"e{number}"), self.folder.path / f"out{number}", self.folder.path / f"merged{number}"
                code, text, err = run("train", plan(parallel, lora, "beside.json"), "--data", self.data, "--weights", folder, "--adapter", adapter, "--save", saved, "--json")
                self.assertEqual(code, 0, err)
                self.assertIn("lora_dropout 0.25; this training has the plan's training.lora.dropout, 0", err)
                self.assertLess(abs(json.loads(text)["steps"][0]["loss"] / expected - 1), LOSS)
                tandem_json("export", saved, "--to", "peft", "--out", out, "--config", folder)
                self.assertEqual(formula.read_safetensors((out / "adapter_model.safetensors").read_bytes()), formula.read_safetensors((adapter / "adapter_model.safetensors").read_bytes()))
                targets = json.loads((out / "adapter_config.json").read_text())["target_modules"]
                self.assertEqual(sorted(targets), sorted({m.split(".mlp.")[1] for m in modules}))
                tandem_json("export", saved, "--out", again, "--config", folder)
                read = formula.read_safetensors((again / "model.safetensors").read_bytes())
                name = "model.layers.1.mlp.experts.3.up_proj.weight"
                self.assertEqual(read[name][2], formula.packed(merged(name, said["shapes"][name]), "F32"))

    def test_adapters_that_a_plan_cannot_say_are_refused_by_name(self):
        folder, plan = self.model("llama"), None
        begin = lambda adapter, **lora: ("train", self.plan("llama", **lora), "--data", self.data, "--weights", folder, "--adapter", adapter)
        own = self.adapter("llama", value=formula.values)
        self.refused(r"(k|v|up)_proj.lora_A.weight: is not equal to .*(q|gate)_proj.lora_A.weight.*"
                     r'set training.lora.targets to \["q","k","v","proj","gate","up","fc2"\]', 3, *begin(own))
        for config, message in (({"r": 4}, r"adapter_config.json: r = 4: is not the plan's training.lora.rank, 3"),
                                ({"lora_alpha": 3}, r"lora_alpha = 3: gives the factor 1.0; the plan's alpha / rank is 2.0; give the plan training.lora.alpha 3"),
                                ({"use_dora": True}, r"use_dora = true: not implemented: DoRA trains"),
                                ({"bias": "all"}, r'bias = "all": not implemented: the model.s biases are frozen'),
                                ({"alpha_pattern": {"q_proj": 4}}, r"alpha_pattern = .*: not implemented: all targets have one factor"),
                                ({"modules_to_save": ["lm_head"]}, r'modules_to_save = \["lm_head"\]: not implemented'),
                                ({"rank_pattern": {"q_proj": 4}}, r"rank_pattern = .*: not implemented: all targets have one rank")):
            self.refused(message, 3, *begin(self.adapter("llama", config)))
        shapes = dict(ORACLE["llama"]["shapes"])
        name = next(n for n in shapes if "k_proj.lora_B" in n)
        fewer = {k: v for k, v in shapes.items() if k != name}
        self.refused(r"adapter_model.safetensors: " + name + r": is missing", 3, *begin(self.adapter("llama", shapes=fewer)))
        more = shapes | {"base_model.model.lm_head.lora_A.weight": [3, 32]}
        self.refused(r"lm_head.lora_A.weight = \[3, 32\]: is unexpected", 3, *begin(self.adapter("llama", shapes=more)))
        for targets in (["proj", "fc1", "fc2"], ["q", "v", "proj", "fc1", "fc2"]):
            self.refused(r'training.lora.targets = .*: are not the matrices that .*set it to \["q","k","v","proj","gate","up","fc2"\]', 3,
                         *begin(self.adapter("llama"), targets=targets))
        self.refused(r"adapter_config.json", 3, *begin(self.folder.path))

    def test_a_factor_of_rank_stabilised_adapters_is_said_by_alpha(self):
        folder = self.model("llama")
        adapter = self.adapter("llama", {"use_rslora": True, "lora_alpha": 6 / 3 ** 0.5})
        step = tandem_json("train", self.plan("llama"), "--data", self.data, "--weights", folder, "--adapter", adapter)["steps"][0]
        self.assertLess(abs(step["loss"] / ORACLE["llama"]["loss"] - 1), LOSS)

    def test_command_lines_that_make_no_sense_are_refused(self):
        folder, adapter = self.model("llama"), self.adapter("llama")
        plan = json.loads(pathlib.Path(self.plan("llama")).read_text())
        del plan["training"]["lora"]
        bare, saved = self.folder.plan(plan, "bare.json"), self.path("saved")
        self.refused(r"--adapter requires --weights", 2, "train", bare, "--data", self.data, "--adapter", adapter)
        self.refused(r"bare.json: training.lora: is missing", 3, "train", bare, "--data", self.data, "--weights", folder, "--adapter", adapter)
        tandem_json("train", bare, "--data", self.data, "--weights", folder, "--save", saved)
        self.refused(r"training.lora: is no part of the checkpoint's plan: it has no adapters", 3, "export", saved, "--to", "peft", "--out", self.path("out"))
        self.refused(r"is not a checkpoint", 3, "export", bare, "--to", "peft", "--out", self.path("out"))


if __name__ == "__main__":
    tandem.main()
