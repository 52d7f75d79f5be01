#!/usr/bin/env python3
"""A plan is made from a model and an adapter in PEFT's format, and trains from it."""
import json
import sys

import tandem
from tandem import SOURCE, WithFolder, run, tandem_json

sys.path.insert(0, str(SOURCE / "tests" / "fixtures"))
import formula_weights as formula  # noqa: E402

MODELS = json.loads((SOURCE / "tests" / "fixtures" / "transformers_losses.json").read_text())
ORACLE = json.loads((SOURCE / "tests" / "fixtures" / "peft_losses.json").read_text())
ALL = ["q", "k", "v", "proj", "gate", "up", "fc2"]


class Imports(WithFolder):
    def files(self, model, config, shapes=None):
        base, adapter = self.folder.path / model, self.folder.path / "adapter"
        for folder in (base, adapter):
            folder.mkdir(exist_ok=True)
        (base / "config.json").write_text(json.dumps(MODELS[model]["config"]))
        (base / "model.safetensors").write_bytes(formula.safetensors(MODELS[model]["shapes"]))
        (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 3, "lora_alpha": 6, **config}))
        if shapes:
            (adapter / "adapter_model.safetensors").write_bytes(formula.safetensors(shapes))
        return base, adapter

    def imported(self, model, config):
        base, adapter = self.files(model, config)
        return tandem_json("import", base / "config.json", "--cluster", "cpu-host", "--adapter", adapter)["document"]["training"]["lora"]

    def refused(self, message, code, model, config):
        base, adapter = self.files(model, config)
        found, out, err = run("import", base / "config.json", "--cluster", "cpu-host", "--adapter", adapter)
        self.assertEqual((found, out), (code, ""), err)
        self.assertRegex(err, message)

    def test_the_plan_of_an_adapter_begins_with_the_loss_of_peft(self):
        for name in ("llama own", "llama own q, v", "llama own rslora", "mixed own"):
            with self.subTest(adapter=name):
                oracle = ORACLE[name]
                base, adapter = self.files(oracle["model"], oracle["config"] | {"target_modules": oracle["modules"]}, oracle["shapes"])
                plan = tandem_json("import", base / "config.json", "--cluster", "cpu-host", "--adapter", adapter)["document"]
                plan["training"] |= {"seq_length": formula.LENGTH, "micro_batch_size": 1, "global_batch_size": formula.SEQUENCES, "precision": "fp32",
                                     "learning_rate": 0}
                data = self.folder.file("tokens.bin", formula.llmc_tokens(formula.tokens()))
                step = tandem_json("train", self.folder.plan(plan), "--data", data, "--weights", base, "--adapter", adapter)["steps"][0]
                self.assertLess(abs(step["loss"] / oracle["loss"] - 1), 1e-6)  # both sides compute in fp32

    def test_targets_are_the_modules_that_the_file_names(self):
        plain = {"rank": 3, "alpha": 6}
        self.assertEqual(self.imported("llama", {"target_modules": ["v_proj", "q_proj"], "lora_dropout": 0.1}), {**plain, "targets": ["q", "v"], "dropout": 0.1})
        self.assertEqual(self.imported("llama", {"target_modules": "all-linear"}), {**plain, "targets": ALL})
        self.assertEqual(self.imported("phi3", {"target_modules": ["qkv_proj", "gate_up_proj"]}), {**plain, "targets": ["qkv", "fc1"]})
        self.assertEqual(self.imported("gpt2", {"target_modules": ["c_attn", "mlp.c_proj"]}), {**plain, "targets": ["qkv", "fc2"]})
        self.assertEqual(self.imported("qwen3_moe", {"target_modules": ["q_proj", "up_proj"]}), {**plain, "targets": ["q", "experts.up"]})
        self.assertEqual(self.imported("glm4_moe", {"target_modules": ["up_proj"]}), {**plain, "targets": ["up", "experts.up"]})  # layer 0 has an MLP
        rooted = self.imported("llama", {"r": 4, "lora_alpha": 8, "use_rslora": True, "target_modules": ["o_proj"]})
        self.assertEqual(rooted, {"rank": 4, "alpha": 16, "targets": ["proj"]})  # 8 / sqrt(4) = 16 / 4

    def test_weights_beside_adapters_are_stored_as_the_model_says(self):
        base, adapter = self.files("llama", {"target_modules": ["q_proj"]})
        nf4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}

        def imported(quantized):
            (base / "config.json").write_text(json.dumps(MODELS["llama"]["config"] | {"quantization_config": quantized}))
            return run("import", base / "config.json", "--cluster", "cpu-host", "--adapter", adapter)

        def lora(quantized):
            return json.loads(imported(quantized)[1])["training"]["lora"]

        self.assertEqual(lora(nf4)["base"], "nf4")
        self.assertNotIn("double_quantization", lora(nf4))
        self.assertIs(lora({**nf4, "bnb_4bit_use_double_quant": True})["double_quantization"], True)
        (base / "config.json").write_text(json.dumps(MODELS["llama"]["config"] | {"hidden_size": 128, "head_dim": 32, "intermediate_size": 192, "quantization_config": nf4}))
        plan = self.path("plan.json")
        self.assertEqual(run("import", base / "config.json", "--cluster", "dgx-h100", "--devices", 8, "--adapter", adapter, "--out", plan)[0], 0)
        self.assertEqual(run("simulate", plan)[0], 0)
        del nf4["quant_method"]  # as older files
        self.assertEqual(lora(nf4)["base"], "nf4")
        for method in ("mxfp4", "fp8"):  # dequantized to train
            self.assertNotIn("base", lora({"quant_method": method}))
        for quantized, said in (({"quant_method": "gptq", "bits": 4}, "quant_method = \"gptq\""),
                                ({"quant_method": "awq", "bits": 4}, "quant_method = \"awq\""),
                                ({"load_in_8bit": True}, "load_in_8bit = true"),
                                ({"load_in_4bit": True}, "bnb_4bit_quant_type = \"fp4\"")):
            code, out, err = imported(quantized)
            self.assertEqual((code, out), (4, ""), err)
            self.assertIn(f"quantization_config.{said}: not implemented: adapters beside weights in this format", err)

    def test_a_pattern_chooses_the_modules_that_it_matches_in_full(self):
        # huggingface/peft 0.21, tuners_utils.py, check_target_module_exists: re.fullmatch on the module's whole name; a list, endings
        def targets(model, config):
            return self.imported(model, config)["targets"]

        self.assertEqual(targets("llama", {"target_modules": r".*\.(q|v)_proj"}), ["q", "v"])
        self.assertEqual(targets("llama", {"target_modules": r"model\.layers\.\d+\.mlp\.(?:gate|up)_proj$"}), ["gate", "up"])
        # LLaMA-Factory writes such patterns for models with towers
        self.assertEqual(targets("llama", {"target_modules": "^(?!.*patch_embed)(?!.*visual).*(?:down_proj|q_proj|up_proj).*"}), ["q", "up", "fc2"])
        self.assertEqual(targets("llama", {"target_modules": "all-linear", "exclude_modules": r".*mlp.*"}), ["q", "k", "v", "proj"])
        self.assertEqual(targets("llama", {"target_modules": ["q_proj", "k_proj"], "exclude_modules": ["k_proj"]}), ["q"])
        self.assertEqual(targets("gpt2", {"target_modules": r".*\.attn\.c_.*"}), ["qkv", "proj"])

    def test_a_pattern_that_no_plan_says_is_refused(self):
        def refused(message, config):
            self.refused(r"adapter_config.json: target_modules = " + message, 3, "llama", config)

        refused(r".*: not implemented: it chooses model.layers.0.self_attn.q_proj and not model.layers.1.self_attn.q_proj, and a target has adapters in "
                r"all layers", {"target_modules": r"model\.layers\.0\..*_proj"})
        refused(r".*: not implemented: it chooses model.layers.0.self_attn.q_proj", {"target_modules": ["layers.0.self_attn.q_proj"]})
        refused(r"lm_head: is no matrix of this model", {"target_modules": r".*(q_proj|lm_head)"})
        refused(r".*: chooses no matrix of this model", {"target_modules": "q_proj"})  # not the whole name
        refused(r".*: is no pattern that is read here; list the modules", {"target_modules": r".*q_proj\Z"})  # Python's alone
        refused(r".*: is no pattern that is read here; list the modules", {"target_modules": r"(?P<part>.*q_proj)"})
        refused(r".*: is no pattern that is read here; list the modules", {"target_modules": r".*(q_proj"})

    def test_what_a_plan_cannot_say_is_refused_by_name(self):
        self.refused(r"layer_replication = \[\[0,1\]\]: not implemented: it repeats layers", 3, "llama", {"target_modules": ["q_proj"], "layer_replication": [[0, 1]]})
        self.refused(r"adapter_config.json: target_modules = lm_head: is no matrix of this model", 3, "llama", {"target_modules": ["q_proj", "lm_head"]})
        self.refused(r"target_modules = .*: is neither a list of names of modules nor a pattern", 3, "llama", {"target_modules": {"q_proj": 1}})
        self.refused(r"target_modules: is missing", 3, "llama", {})
        self.refused(r"layers_to_transform = \[0\]: not implemented: all layers", 3, "llama", {"target_modules": ["q_proj"], "layers_to_transform": [0]})
        self.refused(r"r = 0: is not above 0", 3, "llama", {"r": 0, "target_modules": ["q_proj"]})
        base, adapter = self.files("llama", {"target_modules": ["q_proj"]})
        code, _, err = run("import", base / "config.json", "--adapter", adapter)
        self.assertEqual(code, 2, err)
        self.assertIn("--cluster", err)


if __name__ == "__main__":
    tandem.main()
