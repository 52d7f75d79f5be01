#!/usr/bin/env python3
"""Weights in Hugging Face's format: every mapped type begins with transformers' loss under every layout, and comes back byte for byte."""
import json
import math
import pathlib
import shutil
import struct

import tandem
from hub_weights import LAYOUTS, LOSS, NORM, ORACLE, TOWERS, HubWeights, formula
from tandem import changed, run, tandem_json

SECOND = {"phi3": "llama", "ernie4_5": "llama", "glm4_moe_lite": "deepseek_v3", "opt": "gpt2",
          "qwen3_next": "qwen3_5_moe_text", "solar_open": "glm4_moe"}  # the first type that says the plan
ALONE = {name: oracle for name, oracle in ORACLE.items() if name not in TOWERS}


class Weights(HubWeights):
    def test_every_type_begins_with_the_loss_of_transformers_under_every_layout(self):
        for name, oracle in ALONE.items():
            folder = self.model(name)
            for layout, parallel in LAYOUTS.items():
                with self.subTest(model=name, layout=layout):
                    step = self.first_step(self.plan(folder / "config.json", parallel), "--weights", folder)
                    self.assert_near(step["loss"], oracle["loss"], LOSS, "loss")
                    self.assert_near(step["grad_norm"], oracle["grad_norm"], NORM, "norm of the gradients")

    def test_adapters_begin_beside_pretrained_weights_and_are_added_to_them_in_an_export(self):
        folder, saved, out = self.model("llama"), self.path("adapted"), self.path("merged")
        lora = {"lora": {"rank": 4, "alpha": 8}, "learning_rate": 0.01}
        for layout in ({}, {"tensor": 2, "data": 2, "zero_stage": 1}):
            with self.subTest(layout=layout):
                adapted = self.plan(folder / "config.json", layout, **lora)
                steps = tandem_json("train", adapted, "--data", self.data, "--weights", folder, "--steps", 4, "--save", saved)["steps"]
                self.assert_near(steps[0]["loss"], ORACLE["llama"]["loss"], LOSS, "loss")
                after = tandem_json("train", adapted, "--data", self.data, "--resume", saved, "--steps", 5)["steps"][-1]["loss"]
                self.assertLess(after, 0.999 * steps[0]["loss"])
                told = tandem_json("export", saved, "--out", out)
                self.assertEqual(told["parameters"], sum(math.prod(shape) for shape in ORACLE["llama"]["shapes"].values()))
                merged = self.first_step(self.plan(folder / "config.json", file="merged.json"), "--weights", out)
                self.assert_near(merged["loss"], after, 1e-6, "loss of the merged weights")
                shutil.rmtree(saved), shutil.rmtree(out)

    def test_weights_come_back_byte_for_byte_from_every_layout(self):
        for number, (name, oracle) in enumerate(ALONE.items()):
            layout = list(LAYOUTS.values())[number % len(LAYOUTS)]
            with self.subTest(model=name, layout=layout):
                folder, out, saved = self.model(name), self.folder.path / f"out{number}", self.path(f"saved{number}")
                self.first_step(self.plan(folder / "config.json", layout), "--weights", folder, "--save", saved)
                type_of = json.loads((folder / "config.json").read_text())["model_type"]
                done = tandem_json("export", saved, "--out", out, "--type", type_of)
                self.assertEqual(done["type"], type_of)
                self.assert_equal_files(out, folder)
                if any(n.endswith("e_score_correction_bias") for n in oracle["shapes"]):
                    shutil.copy(folder / "model.safetensors", out)
                again = self.plan(out / "config.json", file=f"again{number}.json")
                self.assert_near(self.first_step(again, "--weights", out)["loss"], oracle["loss"], LOSS, "loss of the exported model")

    def test_weights_are_read_in_16_bits_and_masters_keep_all_of_them(self):
        for dtype in ("F16", "BF16"):
            folder = self.model("gpt2", f"gpt2-{dtype}", dtype)
            step = self.first_step(self.plan(folder / "config.json"), "--weights", folder)
            self.assert_near(step["loss"], ORACLE["gpt2"]["loss"], LOSS, "loss, as all values are exact in 16 bits")
        fine = lambda name, shape: [v + 2.0 ** -12 for v in formula.values(name, shape)]  # bf16 has no such values
        folder, saved = self.model("llama"), self.path("narrow")
        (folder / "model.safetensors").write_bytes(formula.safetensors(ORACLE["llama"]["shapes"], value=fine))
        given = formula.read_safetensors((folder / "model.safetensors").read_bytes())
        self.first_step(self.plan(folder / "config.json", {"data": 2, "zero_stage": 2}, precision="bf16"), "--weights", folder, "--save", saved)
        for dtype, stored in (("fp32", "F32"), ("bf16", "BF16")):
            out = self.folder.path / dtype
            tandem_json("export", saved, "--out", out, *([] if dtype == "bf16" else ["--dtype", dtype]))
            back = formula.read_safetensors((out / "model.safetensors").read_bytes())
            self.assertEqual({t[0] for t in back.values()}, {stored})
            self.assertEqual(json.loads((out / "config.json").read_text())["torch_dtype"], {"fp32": "float32", "bf16": "bfloat16"}[dtype])
            if dtype == "fp32":
                self.assertEqual(back, given)

    def test_a_vocabulary_may_be_padded_and_positions_may_not_be_others(self):
        folder, saved, out = self.model("gpt2"), self.path("saved"), self.folder.path / "out"
        plan = json.loads(pathlib.Path(self.plan(folder / "config.json", {"tensor": 2, "pipeline": 2})).read_text())
        padded = self.folder.plan(changed(plan, **{"model.pad_vocab_to": 56}))  # 112 rows for 64 words
        self.assert_near(self.first_step(padded, "--weights", folder, "--save", saved)["loss"], ORACLE["gpt2"]["loss"], LOSS, "padded")
        tandem_json("export", saved, "--out", out)
        self.assertEqual(formula.read_safetensors((out / "model.safetensors").read_bytes()),
                         formula.read_safetensors((folder / "model.safetensors").read_bytes()))
        fewer = self.folder.plan(changed(plan, **{"model.max_position_embeddings": 16}))
        code, _, err = self.train(fewer, "--weights", folder)
        self.assertEqual(code, 3)
        self.assertRegex(err, r"model.max_position_embeddings = 16: the model of .* has 32")
        alone = self.folder.path / "alone"
        alone.mkdir()
        (alone / "one.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        code, _, err = self.train(fewer, "--weights", alone / "one.safetensors")
        self.assertEqual(code, 3)
        self.assertRegex(err, r"wpe.weight = \[32, 32\]: has another shape: the plan's model wants \[16, 32\]")

    def test_shards_bare_names_and_copies_of_a_tied_matrix_are_read_and_no_other_tensors(self):
        shapes = ORACLE["gpt2"]["shapes"]
        folder = self.model("gpt2")
        plan = self.plan(folder / "config.json", {"tensor": 2})
        bare = {name.removeprefix("transformer."): shape for name, shape in shapes.items()} | {"h.0.attn.bias": [1, 1, 32, 32]}
        value = lambda name, shape: formula.values(name if name == "lm_head.weight" else "transformer." + name.removeprefix("transformer."), shape)
        tied = lambda name, shape: value("transformer.wte.weight" if name == "lm_head.weight" else name, shape)
        file = self.folder.file("bare.safetensors", formula.safetensors(bare, value=value))
        self.assert_near(self.first_step(plan, "--weights", file)["loss"], ORACLE["gpt2"]["loss"], LOSS, "one file without its prefix")
        twice = shapes | {"lm_head.weight": [formula.VOCAB, 32]}
        file = self.folder.file("twice.safetensors", formula.safetensors(twice, value=tied))
        self.assert_near(self.first_step(plan, "--weights", file)["loss"], ORACLE["gpt2"]["loss"], LOSS, "the matrix twice")
        file = self.folder.file("untied.safetensors", formula.safetensors(twice, value=value))
        code, _, err = self.train(plan, "--weights", file)
        self.assertEqual(code, 3)
        self.assertRegex(err, r"untied.safetensors: lm_head.weight = \[64, 32\]: is not equal to transformer.wte.weight")

        saved, out = self.path("saved"), self.folder.path / "shards"
        self.first_step(plan, "--weights", folder, "--save", saved)
        done = tandem_json("export", saved, "--out", out, "--max-shard-size", "20KB")
        self.assertGreater(len(done["files"]), 3)
        index = json.loads((out / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"]["total_size"], done["bytes"])
        together = {}
        for name in done["files"]:
            content = formula.read_safetensors((out / name).read_bytes())
            self.assertTrue(all(index["weight_map"][t] == name for t in content))
            self.assertTrue(len(content) == 1 or sum(len(t[2]) for t in content.values()) <= 20000)
            together |= content
        self.assertEqual(together, formula.read_safetensors((folder / "model.safetensors").read_bytes()))
        for path in (out, out / "model.safetensors.index.json"):
            self.assert_near(self.first_step(plan, "--weights", path)["loss"], ORACLE["gpt2"]["loss"], LOSS, "shards")
        (out / done["files"][1]).unlink()
        code, _, err = self.train(plan, "--weights", out)
        self.assertEqual(code, 3)
        self.assertIn(done["files"][1] + ": there is no such file", err)

    def test_wrong_weights_are_refused_by_file_tensor_and_shape(self):
        shapes = ORACLE["llama"]["shapes"]
        key = "model.layers.1.self_attn.k_proj.weight"
        folder = self.model("llama")
        plan = self.plan(folder / "config.json")
        other = {"missing": ({k: v for k, v in shapes.items() if k != key}, rf"model.safetensors: {key}: is missing: the plan's model wants \[16, 32\]"),
                 "shape": (shapes | {key: [32, 16]}, rf"model.safetensors: {key} = \[32, 16\]: has another shape: the plan's model wants \[16, 32\]"),
                 "unexpected": (shapes | {"model.layers.2.mlp.up_proj.weight": [48, 32]}, r"model.layers.2.mlp.up_proj.weight = \[48, 32\]: is unexpected")}
        for what, (tensors, message) in other.items():
            with self.subTest(what):
                code, out, err = self.train(plan, "--weights", self.model("llama", "wrong", tensors=tensors))
                self.assertEqual((code, out), (3, ""), err)
                self.assertRegex(err, message)
        content = formula.safetensors(shapes)
        damaged = {"type": (content.replace(b'"dtype": "F32"', b'"dtype": "I32"', 1), r"I32: is no type that weights are read from"),
                   "short": (content[:-4], r"ends behind the file, which is cut short"),
                   "header": (content[:100], r"is cut short"),
                   "no safetensors": (b"weights", r"is no safetensors file"),
                   "json": (content[:8] + b"{{" + content[10:], r"its header is no JSON")}
        for what, (data, message) in damaged.items():
            with self.subTest(what):
                code, out, err = self.train(plan, "--weights", self.folder.file("damaged.safetensors", data))
                self.assertEqual((code, out), (3, ""), err)
                self.assertRegex(err, message)
        for what, path, message in (("nothing", self.path("none"), "there is no such file"), ("empty", self.folder.path, "has no model.safetensors")):
            with self.subTest(what):
                code, _, err = self.train(plan, "--weights", path)
                self.assertEqual(code, 3)
                self.assertIn(message, err)

    def test_a_plan_of_another_model_than_the_weights_is_refused_by_field(self):
        folder = self.model("llama")
        for field, value in (("rms_norm_eps", 1e-5), ("rope_theta", 5e5), ("tie_word_embeddings", True)):
            with self.subTest(field):
                config = dict(ORACLE["llama"]["config"], **{field: value})
                if field == "rope_theta":
                    config["rope_parameters"] = {"rope_theta": value, "rope_type": "default"}
                other = self.folder.file("config.json", json.dumps(config))
                code, out, err = self.train(self.plan(other), "--weights", folder)
                self.assertEqual((code, out), (3, ""), err)
                self.assertRegex(err, r"plan.json: model\.(norm_epsilon|rope_theta|tie_embeddings) = \S+: the model of .*llama/config.json has")
        untold = {"a type without a table": ({"model_type": "helium"}, 3, "helium"),
                  "other bounds": ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 2.0,
                                                        "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}, 4, "other bounds"),
                  "quantized": ({"quantization_config": {"bits": 4}}, 4, "quantized")}
        for what, (fields, wanted, message) in untold.items():
            with self.subTest(what):
                config = folder / "config.json"
                config.write_text(json.dumps(dict(ORACLE["llama"]["config"], **fields)))
                code, out, err = self.train(self.plan(config), "--weights", folder)
                self.assertEqual((code, out), (wanted, ""), err)
                self.assertIn(message, err)
                self.assertIn("mixtral" if what == "a type without a table" else "", err)
        other = {"llama between": ({"rope_parameters": dict(ORACLE["llama between"]["config"]["rope_parameters"], attention_factor=1.2)}, "a length of rotated queries and keys"),
                 "olmoe": ({"clip_qkv": 0.02}, "clipped queries"), "bloom": ({"apply_residual_connection_post_layernorm": True}, "residuals that are taken")}
        for name, (fields, message) in other.items():
            with self.subTest(name):
                config = self.model(name) / "config.json"
                config.write_text(json.dumps(dict(ORACLE[name]["config"], **fields)))
                plan = self.plan(config)
                code, out, err = self.train(plan, "--weights", config.parent)
                self.assertEqual((code, out), (4, ""), err)
                self.assertIn("not implemented: " + message, err)

    def test_what_is_computed_otherwise_is_told_and_exported_as_it_was_computed(self):
        folder, saved, out = self.model("mixtral"), self.path("capped"), self.folder.path / "full"
        plan = changed(json.loads(pathlib.Path(self.plan(folder / "config.json")).read_text()), **{"model.moe": {"capacity_factor": 1.0}})
        code, _, err = self.train(self.folder.plan(plan), "--weights", folder, "--save", saved)
        self.assertEqual(code, 0, err)
        self.assertIn("mixtral: model.moe.capacity_factor: the runtime drops tokens beyond it", err)
        code, _, err = run("export", saved, "--out", out)
        self.assertEqual(code, 0, err)
        self.assertIn("full: model.moe.capacity_factor", err)
        folder, saved, out = self.model("gpt_neox"), self.path("saved"), self.folder.path / "out"
        (folder / "config.json").write_text(json.dumps(dict(ORACLE["gpt_neox"]["config"], hidden_act="gelu", is_decoder=True)))
        code, _, err = self.train(self.plan(folder / "config.json"), "--weights", folder, "--save", saved)
        self.assertEqual(code, 0, err)
        self.assertIn("GELU with the error function: the runtime computes GELU's tanh form", err)
        tandem_json("export", saved, "--out", out, "--config", folder)
        config = json.loads((out / "config.json").read_text())
        self.assertEqual((config["hidden_act"], config["is_decoder"], config["torch_dtype"]), ("gelu_new", True, "float32"))

    def test_exports_choose_a_type_that_says_the_plan_and_refuse_the_others(self):
        for name in ALONE:
            folder, saved = self.model(name), self.path("saved-" + name.replace(" ", "-"))
            self.first_step(self.plan(folder / "config.json"), "--weights", folder, "--save", saved)
            out = self.folder.path / ("out-" + name)
            self.assertEqual(tandem_json("export", saved, "--out", out)["type"], SECOND.get(name, name.split()[0]), name)
            by_kind = [any(isinstance(v, dict) for v in (c.get("rope_parameters") or {}).values())  # transformers' classes read one form
                       for c in (json.loads((out / "config.json").read_text()), ORACLE[name]["config"])]
            self.assertLessEqual(*by_kind, name)
        for type_name, reason in (("llama", r'model.qk_norm = "head": type llama cannot say it: it has "none"'), ("gpt2", r"type gpt2 does not say the plan's model: not implemented: another activation"),
                                  ("helium", r"has no table of the names of its weights; types with one are .*qwen3_moe")):
            with self.subTest(type_name):
                code, _, err = run("export", self.path("saved-qwen3"), "--out", self.path("other"), "--type", type_name)
                self.assertEqual(code, 3 if type_name == "helium" else 4, err)
                self.assertRegex(err, reason)
                self.assertFalse(pathlib.Path(self.path("other")).exists())
        capped = self.plan(self.folder.path / "qwen3" / "config.json")
        capped = changed(json.loads(pathlib.Path(capped).read_text()), **{"model.logit_soft_cap": 30})
        self.first_step(self.folder.plan(capped), "--save", self.path("capped"))
        code, _, err = run("export", self.path("capped"), "--out", self.path("other"))
        self.assertEqual(code, 4)
        self.assertRegex(err, r"none of the \d+ model types with a table of weights says this model; the nearest, qwen3, cannot say model.logit_soft_cap;")

    def test_a_dense_model_with_a_module_of_multi_token_prediction_is_exported_without_experts(self):
        """transformers gives experts to the layers from first_k_dense_replace on (modeling_glm4_moe.py, Glm4MoeDecoderLayer)."""
        model = {"family": "llama", "num_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "ffn_hidden_size": 48, "vocab_size": formula.VOCAB,
                 "mtp": {"num_layers": 1}}
        latent = dict(model, head_dim=12, value_dim=8, latent={"query_rank": 12, "kv_rank": 8, "rotary_dim": 4})
        for wanted, section in (("glm4_moe", model), ("deepseek_v3", latent)):
            with self.subTest(wanted):
                plan = {"model": section, "cluster": {"preset": "cpu-host", "devices": 1},
                        "training": {"seq_length": formula.LENGTH, "micro_batch_size": 1, "global_batch_size": formula.SEQUENCES,
                                     "precision": "fp32", "learning_rate": 0, "weight_decay": 0}}
                saved, out = self.path(f"saved-{wanted}"), self.folder.path / f"out-{wanted}"
                before = self.first_step(self.folder.plan(plan), "--save", saved)
                self.assertEqual(tandem_json("export", saved, "--out", out)["type"], wanted)
                config = json.loads((out / "config.json").read_text())
                self.assertEqual((config["first_k_dense_replace"], config["n_routed_experts"]), (2, 0))
                after = self.first_step(self.plan(out / "config.json", file="again.json"), "--weights", out)
                self.assert_near(after["loss"], before["loss"], LOSS, "loss of the exported model")

    def test_a_plan_may_do_without_modules_of_multi_token_prediction_as_transformers_does(self):
        for name in ("deepseek_v3", "glm4_moe"):
            shapes, config = ORACLE[name]["shapes"], dict(ORACLE[name]["config"], num_nextn_predict_layers=1)
            folder = self.model(name)
            (folder / "config.json").write_text(json.dumps(config))
            with_modules = self.plan(folder / "config.json")
            code, _, err = self.train(with_modules, "--weights", folder)
            self.assertEqual(code, 3)
            self.assertRegex(err, r"model.layers.2.enorm.weight: is missing: .*; transformers saves no modules .*model.mtp.num_layers to 0")
            plan = self.folder.plan(changed(json.loads(pathlib.Path(with_modules).read_text()), **{"model.mtp": {"num_layers": 0}}))
            module = {"model.layers.2.enorm.weight": [32], "model.layers.2.eh_proj.weight": [32, 64]}
            for stored in (shapes, shapes | module):
                with self.subTest(model=name, tensors=len(stored)):
                    self.model(name, tensors=stored, config=False)
                    saved, out = self.path(f"saved-{name}-{len(stored)}"), self.folder.path / f"out-{name}-{len(stored)}"
                    step = self.first_step(plan, "--weights", folder, "--save", saved)
                    self.assert_near(step["loss"], ORACLE[name]["loss"], LOSS, "loss")
                    tandem_json("export", saved, "--out", out, "--config", folder)
                    self.assertEqual(json.loads((out / "config.json").read_text())["num_nextn_predict_layers"], 0)
                    self.assertEqual(set(formula.read_safetensors((out / "model.safetensors").read_bytes())), set(shapes))
            self.model(name, tensors=shapes | {"model.layers.3.enorm.weight": [32]}, config=False)
            self.assertIn("model.layers.3.enorm.weight = [32]: is unexpected", self.train(plan, "--weights", folder)[2])

    def test_factors_of_a_configuration_come_back_in_its_own_fields(self):
        for name, fields in (("gemma2", ["query_pre_attn_scalar"]), ("cohere", ["logit_scale"]),
                             ("granite", ["embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"])):
            folder, saved, out = self.model(name), self.path("saved-" + name), self.folder.path / ("out-" + name)
            code, _, err = self.train(self.plan(folder / "config.json"), "--weights", folder, "--save", saved)
            self.assertEqual((code, "factor" in err), (0, False), err)
            self.assertEqual(tandem_json("export", saved, "--out", out)["type"], name)
            written = json.loads((out / "config.json").read_text())
            self.assertEqual([written[f] for f in fields], [ORACLE[name]["config"][f] for f in fields])

    def test_biases_of_experts_may_move_at_another_rate_than_the_configurations(self):
        folder, saved, out = self.model("deepseek_v3"), self.path("saved"), self.folder.path / "out"
        named = json.loads(pathlib.Path(self.plan(folder / "config.json")).read_text())
        faster = self.folder.plan(changed(named, **{"model.moe": {"balance_rate": 0.25}}))
        self.assert_near(self.first_step(faster, "--weights", folder, "--save", saved)["loss"], ORACLE["deepseek_v3"]["loss"], LOSS, "loss")
        self.assertEqual(tandem_json("export", saved, "--out", out)["type"], "deepseek_v3")
        name, moved = "model.layers.1.mlp.gate.e_score_correction_bias", []
        for place in (folder, out):
            _, shape, data = formula.read_safetensors((place / "model.safetensors").read_bytes())[name]
            moved.append(struct.unpack(f"<{shape[0]}f", data))
        self.assertLess(max(abs(abs(a - b) - 0.25) for a, b in zip(*moved) if a != b), 1e-6)
        code, _, err = self.train(self.folder.plan(changed(named, **{"model.moe": {"balance_rate": 0}})), "--weights", folder)
        self.assertEqual(code, 3, err)
        self.assertIn("has 0.001; set it, or set model.moe.balance_bias to true for biases that are used but do not move", err)
        stays = changed(named, **{"model.moe": {"balance_rate": 0, "balance_bias": True}})
        kept, same = self.folder.plan(stays), self.folder.path / "same"
        self.first_step(kept, "--weights", folder, "--save", self.path("kept"))
        tandem_json("export", self.path("kept"), "--out", same, "--config", folder)
        stored = [formula.read_safetensors((place / "model.safetensors").read_bytes())[name] for place in (folder, same)]
        self.assertEqual(*stored)

    def test_losses_of_experts_that_transformers_does_not_add_are_told(self):
        config = dict(ORACLE["qwen3_moe"]["config"], router_aux_loss_coef=0.01)
        folder = self.model("qwen3_moe")
        (folder / "config.json").write_text(json.dumps(config))
        plan = self.plan(folder / "config.json")
        self.assertIn("model.moe.aux_loss: the runtime adds a balancing loss for each layer of a micro-batch; transformers adds one of all layers' "
                      "choices and scores, and only with output_router_logits. With one layer of experts they are equal at "
                      "model.moe.aux_loss = router_aux_loss_coef * num_experts_per_tok", self.train(plan, "--weights", folder)[2])
        without = self.folder.plan(changed(json.loads(pathlib.Path(plan).read_text()), **{"model.moe": {"aux_loss": 0}}))
        self.assertNotIn("aux_loss", self.train(without, "--weights", folder)[2])

    def test_weights_that_are_not_finite_are_refused_by_tensor(self):
        key = "model.layers.1.mlp.down_proj.weight"
        for bad in (math.nan, math.inf):
            value = lambda name, shape: [bad if name == key and i == 5 else v for i, v in enumerate(formula.values(name, shape))]
            folder = self.model("llama", "bad")
            (folder / "model.safetensors").write_bytes(formula.safetensors(ORACLE["llama"]["shapes"], value=value))
            code, out, err = self.train(self.plan(folder / "config.json"), "--weights", folder)
            self.assertEqual(code, 3, err)
            self.assertRegex(err, f"model.safetensors: {key}: has numbers that are not finite")

    def test_weights_that_overflow_in_the_first_step_are_not_blamed_on_the_learning_rate(self):
        value = lambda name, shape: [3e38 if "up_proj" in name else v for v in formula.values(name, shape)]
        folder = self.model("llama", "huge")
        (folder / "model.safetensors").write_bytes(formula.safetensors(ORACLE["llama"]["shapes"], value=value))
        for precision in ("fp32", "bf16"):
            code, out, err = self.train(self.plan(folder / "config.json", precision=precision), "--weights", folder)
            self.assertEqual(code, 7, err)
            self.assertIn("no step was finite, not even the first: check the weights that the run began with", err)
            self.assertEqual("set training.precision to fp32" in err, precision == "bf16")
            self.assertNotIn("learning_rate (", err)

    def test_command_lines_and_places_that_make_no_sense_are_refused(self):
        folder, saved = self.model("qwen2"), self.path("saved")
        plan = self.plan(folder / "config.json")
        self.first_step(plan, "--weights", folder, "--save", saved)
        code, _, err = self.train(plan, "--weights", folder, "--resume", saved)
        self.assertEqual(code, 2)
        self.assertIn("--weights: is for a new run", err)
        full = self.folder.path / "full"
        full.mkdir()
        (full / "notes").write_text("mine")
        for out, more, wanted, message in ((full, [], 3, "is a folder with files in it"), (self.data, [], 3, "exists"),
                                           (self.path("new"), ["--max-shard-size", "many"], 2, "--max-shard-size"),
                                           (self.path("new"), ["--max-shard-size", "5 XB"], 2, "GiB"),
                                           (self.path("new"), ["--dtype", "fp8"], 2, "--dtype")):
            code, _, err = run("export", saved, "--out", out, *more)
            self.assertEqual(code, wanted, err)
            self.assertIn(message, err)
        self.assertEqual([p.name for p in full.iterdir()], ["notes"])
        self.assertEqual([p.name for p in self.folder.path.iterdir() if ".new" in p.name], [])
        code, _, err = run("export", self.data, "--to", "huggingface", "--out", self.path("new"))
        self.assertEqual(code, 3)
        self.assertIn("is not a checkpoint", err)

    def test_a_number_beyond_fp16_is_not_exported_in_it(self):
        folder, saved = self.model("llama"), self.path("saved")
        large = lambda name, shape: [1e5 if name == "model.norm.weight" else v for v in formula.values(name, shape)]
        (folder / "model.safetensors").write_bytes(formula.safetensors(ORACLE["llama"]["shapes"], value=large))
        self.first_step(self.plan(folder / "config.json"), "--weights", folder, "--save", saved)
        code, _, err = run("export", saved, "--out", self.path("out"), "--dtype", "fp16")
        self.assertEqual(code, 3)
        self.assertRegex(err, r"--dtype = F16: model.norm.weight has 100000.*beyond this type")
        self.assertFalse(pathlib.Path(self.path("out")).exists())


if __name__ == "__main__":
    tandem.main()
