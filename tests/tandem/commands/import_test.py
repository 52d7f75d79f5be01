#!/usr/bin/env python3
"""Hugging Face configurations become presets and plans, are named as presets, and are refused by what a plan cannot say."""
import json
import pathlib
import re

import tandem
from tandem import SOURCE, TEXT, WithFolder, run, tandem_json

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 128, "torch_dtype": "bfloat16"}
PERSIMMON = {"model_type": "persimmon", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
             "vocab_size": 256, "max_position_embeddings": 128, "qk_layernorm": True}
SPARSE = {"model_type": "deepseek_v32", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
          "vocab_size": 256, "max_position_embeddings": 128, "q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 16,
          "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
          "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 8}
HYBRID = {"model_type": "nemotron_h", "hidden_size": 512, "hybrid_override_pattern": "M-*-", "num_attention_heads": 8,
          "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 1024, "mamba_num_heads": 8, "mamba_head_dim": 64, "n_groups": 4,
          "ssm_state_size": 64, "vocab_size": 256, "max_position_embeddings": 32768}
BLOCKS = {"model_type": "minimax_m3", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 16, "dense_intermediate_size": 96, "intermediate_size": 32, "shared_intermediate_size": 32, "vocab_size": 256,
          "rotary_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_layer_freq": [0, 1],
          "sparse_attention_config": {"sparse_attention_freq": [0, 1], "sparse_num_index_heads": 2, "sparse_index_dim": 16,
                                      "sparse_block_size": 8, "sparse_topk_blocks": 2, "sparse_local_block": 1}}
MIMO = {"model_type": "mimo_v2_flash", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 24, "v_head_dim": 16, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2,
        "swa_head_dim": 24, "swa_v_head_dim": 16, "vocab_size": 256, "max_position_embeddings": 128, "sliding_window": 16,
        "swa_rope_theta": 10000, "partial_rotary_factor": 0.334, "hybrid_layer_pattern": [0, 1, 1], "moe_layer_freq": [0, 1, 1],
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "layernorm_epsilon": 1e-5,
        "add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False, "attention_value_scale": 0.707}
GEMMA = {"model_type": "gemma4_text", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 4, "head_dim": 8, "num_global_key_value_heads": 2, "global_head_dim": 16, "attention_k_eq_v": True,
         "vocab_size": 256, "max_position_embeddings": 128, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"],
         "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 40,
         "rms_norm_eps": 1e-6}
OTHER_NORMS = "norms of queries and keys (QK norm) other than RMS norms of heads or rows"


class Import(WithFolder):
    def config(self, fields, name="config.json"):
        return self.folder.file(name, json.dumps(fields))

    def test_a_model_becomes_a_preset_that_plans_can_name_by_its_path(self):
        code, out, err = run("import", self.config(LLAMA), "--out", self.path("llama.json"))
        self.assertEqual((code, out), (0, ""), err)
        self.assertRegex(err, r"used\n(.*\n)*  model\.hidden_size +64 +hidden_size\n")
        self.assertRegex(err, r"left out by the file.*\n(.*\n)*  model\.norm_epsilon +1e-06 +rms_norm_eps\n")
        self.assertRegex(err, r"derived\n(.*\n)*  model\.head_dim +16 +hidden_size 64 and num_attention_heads 4\n")
        self.assertIn("ignored: architectures, model_type and torch_dtype\n", err)
        rest = {"training": {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 2},
                "cluster": {"preset": "cpu-host", "devices": 1}}
        told = [tandem_json("explain", self.folder.plan({"model": {"preset": preset}, **rest})) for preset in ("llama.json", "config.json")]
        for one in told:
            self.assertEqual(one["parameters"]["total"], 2 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 2 * 256 * 64 + 64)
        sections = [{k: v for k, v in one["plan"]["model"].items() if k != "name"} for one in told]
        self.assertEqual(*sections)

    def test_fields_of_a_config_json_that_frameworks_have_too_do_not_make_it_theirs(self):
        # BLOOM's and Nemotron-H's files say hidden_dropout, as GPT-NeoX's own do
        code, out, err = run("import", self.config(HYBRID | {"hidden_dropout": 0.0}))
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["model"]["hidden_size"], 512)
        self.assertIn("model type nemotron_h", err)

    def test_the_bert_of_gaudis_scripts_is_the_preset_written_of_it(self):
        # HabanaAI/Model-References: PyTorch/nlp/pretraining/deepspeed-bert/scripts/bert_1.5b_config.json, with a type
        config = {"model_type": "bert", "hidden_size": 1600, "hidden_act": "gelu", "initializer_range": 0.02, "vocab_size": 30522,
                  "num_attention_heads": 25, "type_vocab_size": 2, "max_position_embeddings": 512, "num_hidden_layers": 48,
                  "intermediate_size": 6400, "layer_norm_large_model": True}
        rest = {"training": {"seq_length": 128, "micro_batch_size": 1, "global_batch_size": 1}, "cluster": {"preset": "hls-gaudi2", "devices": 1}}
        self.config(config)
        models = [tandem_json("explain", self.folder.plan({"model": {"preset": preset}, **rest}))["plan"]["model"] for preset in ("config.json", "bert-1.5b")]
        differ = {key for key in models[0] if models[0][key] != models[1][key]}
        self.assertEqual(models[0]["norm_placement"], "post_add")
        self.assertEqual(differ - {"name"}, {"pad_vocab_to"})

    def parameters(self, fields):
        return tandem_json("import", self.config(fields))["parameters"]

    def test_layers_are_read_in_the_words_of_old_and_new_transformers(self):
        granite = {"model_type": "granitemoehybrid", "hidden_size": 64, "intermediate_size": 96, "shared_intermediate_size": 96,
                   "num_local_experts": 0, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "mamba_n_heads": 4,
                   "mamba_d_state": 8, "num_hidden_layers": 3}
        for model, key, words in ((granite, "layer_types", {"m": ("mamba", "linear_attention"), "a": ("attention", "full_attention")}),
                                  ({k: v for k, v in HYBRID.items() if k != "hybrid_override_pattern"}, "layers_block_type",
                                   {"m": ("mamba", "linear_attention"), "a": ("attention", "full_attention"), "f": ("mlp", "mlp")})):
            pattern = "mam" if key == "layer_types" else "mfaf"
            old, new = ({**model, key: [words[c][i] for c in pattern]} for i in (0, 1))
            self.assertEqual(self.parameters(old), self.parameters(new))
            code, _, err = run("import", self.config({**model, key: [words[c][0] for c in pattern[:-1]] + ["hyena"]}))
            self.assertEqual(code, 4, err)
            self.assertIn("hyena", err)

    def test_layers_with_experts_can_be_a_list_of_their_indices(self):
        model = {"model_type": "llama4_text", "hidden_size": 64, "intermediate_size": 32, "intermediate_size_mlp": 96, "head_dim": 16,
                 "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "num_local_experts": 4}
        by_step = self.parameters({**model, "interleave_moe_layer_step": 1})
        self.assertEqual(self.parameters({**model, "moe_layers": [0, 1, 2, 3]}), by_step)
        self.assertEqual(self.parameters({**model, "moe_layers": [1, 3]}), self.parameters({**model, "interleave_moe_layer_step": 2}))
        code, _, err = run("import", self.config({**model, "moe_layers": [1, 2]}))
        self.assertEqual(code, 4, err)
        self.assertIn("experts in layers at irregular places", err)

    def test_a_model_with_a_tower_ties_its_head_as_its_own_configuration_says(self):
        text = {**LLAMA, "model_type": "qwen3_vl_text", "head_dim": 16, "num_key_value_heads": 2}
        tied, apart = (self.parameters({"model_type": "qwen3_vl", "tie_word_embeddings": outer,
                                        "text_config": {**text, "tie_word_embeddings": not outer}})["language_model"] for outer in (True, False))
        self.assertEqual(apart - tied, 256 * 64)

    def test_what_a_class_has_where_the_file_has_nothing(self):
        def section(kind, **fields):
            return tandem_json("import", self.config({"model_type": kind, **fields}))["document"]["model"]
        self.assertEqual(section("qwen3_moe")["moe"]["num_experts"], 128)
        self.assertEqual(section("qwen3_vl_moe_text")["moe"]["num_experts"], 60)
        self.assertNotIn("normalize_weights", section("qwen3_next")["moe"])
        self.assertEqual(section("mistral4")["moe"].get("weight_scale", 1), 1)
        self.assertEqual(section("glm4_moe_lite")["moe"]["first_dense_layers"], 1)
        self.assertEqual(section("exaone4")["window"]["layers"], "wwwf")

    def test_equal_numbers_do_not_hide_where_a_field_comes_from(self):
        for kind in ("qwen3_next", "qwen3_5_text"):  # the convolution is 4 wide, and every fourth layer is attention
            answer = tandem_json("import", self.config({"model_type": kind, "linear_conv_kernel_dim": 4, "full_attention_interval": 4}))
            field = next(f for f in answer["fields"] if f["field"] == "model.recurrence.conv_width")
            self.assertEqual([f["field"] for f in field["from"]], ["linear_conv_kernel_dim"])

    def test_fields_that_change_parameters_are_read_or_refused_and_never_passed_over(self):
        opt = {"model_type": "opt", "hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256,
               "word_embed_proj_dim": 64, "max_position_embeddings": 128}
        mpt = {"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 256, "max_seq_len": 128}
        self.assertEqual(self.parameters({**mpt, "tie_word_embeddings": False})["plan"] - self.parameters(mpt)["plan"], 256 * 64)
        for fields, named in (({**opt, "layer_norm_elementwise_affine": False}, "norms without"),
                              ({**opt, "_remove_final_layer_norm": True}, "none behind the last")):
            code, out, err = run("import", self.config(fields))
            self.assertEqual((code, out), (4, ""), err)
            self.assertIn(named, err)

    def test_sizes_of_single_layers_are_those_of_full_attention(self):
        by_layer = {k: v for k, v in GEMMA.items() if k not in ("num_global_key_value_heads", "global_head_dim")}
        by_layer["per_layer_config"] = {"01": {"head_dim": 16, "num_key_value_heads": 2}}
        self.assertEqual(self.parameters(by_layer), self.parameters(GEMMA))

    def test_a_whole_plan_can_be_simulated(self):
        code, _, err = run("import", self.config(LLAMA), "--seq-length", 64, "--cluster", "dgx-h100", "--devices", 8, "--out", self.path("p.json"))
        self.assertEqual(code, 0, err)
        self.assertGreater(tandem_json("simulate", self.path("p.json"))["step_time_s"], 0)

    def test_a_plan_that_could_not_be_is_not_written(self):
        for arguments, code, said in ((("--cluster", "h100", "--devices", 8), 3, 'did you mean "dgx-h100"'),
                                      (("--cluster", "H100"), 3, 'did you mean "dgx-h100"'), (("--devices", 8), 2, "--cluster")):
            got, out, err = run("import", self.config(LLAMA), *arguments)
            self.assertEqual((got, out), (code, ""), err)
            self.assertIn(said, err)

    def test_the_type_of_a_configuration_without_one_is_told_by_its_fields(self):
        # HabanaAI/Model-References 1.8.0: PyTorch/nlp/pretraining/deepspeed-bert/scripts/bert_5b_config.json
        bert = {"attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 2560, "initializer_range": 0.02,
                "intermediate_size": 10240, "max_position_embeddings": 512, "num_attention_heads": 40, "num_hidden_layers": 63,
                "type_vocab_size": 2, "vocab_size": 30522}
        for fields, said in ((bert, 'add it; the fields are those of "model_type": "bert"'), ({"a": 1, "b": 2}, "give it: known are")):
            code, _, err = run("import", self.config(fields))
            self.assertEqual(code, 3, err)
            self.assertIn("model_type: is missing; " + said, err)

    def test_a_name_of_the_hub_is_no_path(self):
        for command in (("import",), ("search", "--cluster", "dgx-h100", "--devices", 8), ("plan", "--tokens", "1e9", "--cluster", "dgx-h100", "--devices", 8)):
            code, _, err = run(command[0], "Qwen/Qwen3-8B", *command[1:])
            self.assertEqual(code, 3, err)
            self.assertRegex(err, r"\Atandem: error: Qwen/Qwen3-8B: there is no such file; give the path of .*Tandem downloads nothing\n\Z")

    def test_a_model_is_no_plan_and_the_way_to_one_is_told(self):
        for path, said in (("llama3-8b", "is a model preset, and no plan file"), (self.config(LLAMA), "make one of it: tandem import")):
            code, _, err = run("simulate", path)
            self.assertEqual((code, err.count("\n")), (3, 1), err)
            self.assertIn(said, err)

    def test_a_text_that_is_neither_json_nor_options_is_refused_as_no_configuration(self):
        code, out, err = run("import", self.folder.file("notes.txt", "hello world\n"))
        self.assertEqual((code, out), (3, ""))
        self.assertIn("notes.txt: is no configuration that is known here: it is neither JSON nor has a framework's options; give a config.json,", err)

    def test_a_preset_is_no_timeline_and_an_empty_file_no_configuration(self):
        empty = self.folder.file("empty.toml", "")
        for command, said in ((("compare", "llama3-8b", empty), "llama3-8b: is a model preset, and no timeline"),
                              (("import", empty, "--cluster", "dgx-h100"), "is no configuration that is known here")):
            code, _, err = run(*command)
            self.assertEqual((code, err.count("\n")), (3, 1), err)
            self.assertIn(said, err)

    def test_every_command_that_reads_a_plan_tells_the_same_way_from_a_model_to_one(self):
        text = self.folder.file("text.txt", "In the beginning")
        commands = (("simulate",), ("explain",), ("explain", "step_time_s"), ("report",), ("export", "--to", "megatron-core"), ("train", "--data", text), ("train",))
        errors = [run(command[0], "llama3-8b", *command[1:]) for command in commands]
        for command, error in zip(commands, errors):
            self.assertEqual((error[0], error[1], error[2]), (3, "", errors[0][2]), command)
        told = re.search(r"have one made: tandem (search llama3-8b --cluster )NAME --devices N (--out )plan\.json\n", errors[0][2])
        words = (told[1] + "dgx-h100 --devices 8 " + told[2] + self.path("plan.json")).split()  # what is told works
        self.assertEqual(run(*words, "--axis", "tensor=2", "--axis", "schedule=1f1b", "--axis", "recompute=none")[0], 0)
        self.assertEqual(run("simulate", self.path("plan.json"))[0], 0)

    def test_the_index_of_the_weights_tells_another_model(self):
        config = self.config({**LLAMA, "torch_dtype": "bfloat16"})
        counted = tandem_json("import", config)["parameters"]

        def told(metadata, changes=()):
            self.folder.file("config.json", json.dumps({**LLAMA, "torch_dtype": "bfloat16", **dict(changes)}))
            self.folder.file("model.safetensors.index.json", json.dumps({"metadata": metadata, "weight_map": {}}))
            return tandem_json("import", config)["parameters"]["files"], run("import", config)[2]

        self.assertIsNone(counted["files"])
        files, text = told({"total_size": 2 * counted["model"]})
        self.assertEqual(files, counted["model"])
        self.assertRegex(text, rf"in the files of weights +{counted['model']:,} \(\+0.0000 %\)\n  of the plan")
        files, text = told({"total_size": 2 * counted["model"], "total_parameters": 2 * counted["model"]})
        self.assertEqual(files, 2 * counted["model"])
        self.assertIn("(+100.0000 %)\n  the files have other parameters than transformers builds of config.json", text)
        self.assertIsNone(told({"total_size": 99}, {"quantization_config": {"quant_method": "gptq"}})[0])
        self.assertIsNone(told({"total_size": 99}, {"torch_dtype": "auto"})[0])
        self.assertIsNone(told(7)[0])

    def test_factors_of_scores_residuals_and_logits_are_fields_of_the_plan(self):
        told = tandem_json("import", self.config({**LLAMA, "model_type": "gemma2", "query_pre_attn_scalar": 64}))
        self.assertEqual((told["unknown"], told["features"], told["document"]["model"]["attention_scale"]), ([], [], 0.125))
        granite = {"attention_multiplier": 0.5, "residual_multiplier": 0.25, "logits_scaling": 8.0}
        told = tandem_json("import", self.config({**LLAMA, "model_type": "granite", **granite}))
        self.assertEqual((told["unknown"], told["features"]), ([], []))
        model = told["document"]["model"]
        self.assertEqual([model[k] for k in ("attention_scale", "residual_scale", "logit_scale")], [0.5, 0.25, 0.125])

    def test_stdout_is_the_document_alone(self):
        code, out, _ = run("import", self.config(LLAMA))
        self.assertEqual((code, json.loads(out)["model"]["num_layers"]), (0, 2))
        self.assertEqual(tandem_json("import", self.path("config.json"))["document"], json.loads(out))

    def test_a_folder_stands_for_its_config(self):
        self.config(LLAMA)
        self.assertEqual(tandem_json("import", self.folder.path)["file"], self.path("config.json"))

    def test_what_a_plan_cannot_say_is_refused_by_name(self):
        config = self.config(PERSIMMON)
        code, out, err = run("import", config)
        self.assertEqual((code, out), (4, ""))
        self.assertIn(f"{config}: qk_layernorm = true: not implemented: {OTHER_NORMS}; ", err)
        plan = self.folder.plan({"model": {"preset": "config.json"}, "cluster": {"preset": "cpu-host", "devices": 1},
                                 "training": {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 2}})
        code, out, err = run("simulate", plan)
        self.assertEqual((code, out), (4, ""))
        self.assertIn(f"not implemented: {OTHER_NORMS}", err)

    def test_sparse_attention_is_simulated_and_trained(self):
        self.config(SPARSE)
        plan = {"model": {"preset": "config.json"}, "cluster": {"preset": "dgx-h100", "devices": 2}, "parallel": {"tensor": 2},
                "training": {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 2}}
        told = tandem_json("simulate", self.folder.plan(plan))
        self.assertEqual(told["plan"]["model"]["indexer"], {"heads": 2, "head_dim": 16, "topk": 8, "block_size": 1, "layers": "i"})
        plan["model"]["indexer"] = {"heads": 0}
        self.assertGreater(told["step_time_s"], tandem_json("simulate", self.folder.plan(plan))["step_time_s"])
        del plan["model"]["indexer"]
        plan["cluster"] = {"preset": "cpu-host", "devices": 2}
        plan["training"]["flash_attention"] = True
        told = tandem_json("train", self.folder.plan(plan), "--data", TEXT, "--steps", 2)
        self.assertEqual(len(told["steps"]), 2)
        self.assertLess(told["steps"][1]["loss"], told["steps"][0]["loss"])

    def test_layers_with_recurrences_are_simulated_and_trained(self):
        """Nemotron-H in small: an attention layer costs more than a recurrence where sequences are long, and only there."""
        self.config(HYBRID)
        plan = {"model": {"preset": "config.json"}, "cluster": {"preset": "dgx-h100", "devices": 2}, "parallel": {"tensor": 2},
                "training": {"seq_length": 32768, "micro_batch_size": 1, "global_batch_size": 1}}
        told = tandem_json("simulate", self.folder.plan(plan))
        self.assertEqual(told["plan"]["model"]["sublayers"], "mf")
        self.assertEqual(told["plan"]["model"]["recurrence"]["layers"], "raaa")
        self.assertIn("recurrences", told["step_time_range"]["wider"])
        plan["model"]["recurrence"] = {"heads": 0}  # attention in both places
        self.assertGreater(tandem_json("simulate", self.folder.plan(plan))["step_time_s"], told["step_time_s"])
        del plan["model"]["recurrence"]
        plan["cluster"] = {"preset": "cpu-host", "devices": 2}
        plan["training"]["seq_length"] = 128
        told = tandem_json("train", self.folder.plan(plan), "--data", TEXT, "--steps", 2)
        self.assertLess(told["steps"][1]["loss"], told["steps"][0]["loss"])

    def test_sparse_attention_to_blocks_is_simulated_and_not_trained(self):
        self.config(BLOCKS)
        plan = {"model": {"preset": "config.json"}, "cluster": {"preset": "dgx-h100", "devices": 2}, "parallel": {"tensor": 2},
                "training": {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 2}}
        told = tandem_json("simulate", self.folder.plan(plan))
        self.assertEqual(told["plan"]["model"]["indexer"], {"heads": 2, "head_dim": 16, "topk": 16, "block_size": 8, "layers": "fi"})
        plan["cluster"] = {"preset": "cpu-host", "devices": 2}
        plan["training"]["flash_attention"] = True
        code, out, err = run("train", self.folder.plan(plan), "--data", TEXT)
        self.assertEqual((code, out), (4, ""), err)
        self.assertIn("model.indexer.block_size = 8: simulated only", err)

    def test_layers_with_heads_of_their_own_are_simulated_and_trained(self):
        for fields in (MIMO, GEMMA):
            self.config(fields)
            plan = {"model": {"preset": "config.json"}, "cluster": {"preset": "dgx-h100", "devices": 2}, "parallel": {"tensor": 2},
                    "training": {"seq_length": 32, "micro_batch_size": 1, "global_batch_size": 2, "flash_attention": True}}
            told = tandem_json("import", self.path("config.json"))
            self.assertEqual(told["parameters"]["model"], told["parameters"]["plan"])
            self.assertAlmostEqual(told["flops_per_token"]["relative_error"], 0)
            self.assertGreater(tandem_json("simulate", self.folder.plan(plan))["step_time_s"], 0)
            plan["cluster"]["preset"] = "cpu-host"
            code, _, err = run("train", self.folder.plan(plan), "--data", TEXT, "--steps", "2")
            self.assertEqual(code, 0, err)

    def test_a_refused_model_is_told_as_json_too(self):
        code, out, _ = run("import", self.config(PERSIMMON), "--json")
        told = json.loads(out)
        self.assertEqual((code, told["status"], told["document"]), (4, "refused", None))

    def test_an_approximation_states_its_error(self):
        told = tandem_json("import", self.config(PERSIMMON), "--approximate")
        self.assertEqual(told["status"], "approximated")
        self.assertEqual(told["parameters"]["model"] - told["parameters"]["plan"], 2 * 2 * 2 * 16)  # two layers, query and key, weight and bias of a head
        self.assertAlmostEqual(told["parameters"]["relative_error"], told["parameters"]["plan"] / told["parameters"]["model"] - 1)
        self.assertEqual(told["flops_per_token"]["relative_error"], 0)
        code, out, err = run("import", self.path("config.json"), "--approximate")
        self.assertEqual(code, 0)
        self.assertIn(f"left out: {OTHER_NORMS} (qk_layernorm = true), 128 parameters", err)
        self.assertIn(f"without {OTHER_NORMS}", json.loads(out)["notes"])

    def test_a_mixture_tells_what_one_token_uses_and_what_its_mtp_modules_cost(self):
        mixture = {**SPARSE, "model_type": "deepseek_v3", "num_nextn_predict_layers": 1}
        told, without = (tandem_json("import", self.config(fields)) for fields in (mixture, {**mixture, "num_nextn_predict_layers": 0}))
        idle = 2 * (4 - 2) * 3 * 64 * 32  # two layers, two of four experts, three matrices
        for one in (told, without):
            self.assertEqual(one["active_parameters"], one["parameters"]["model"] - idle)
        flops = told["flops_per_token"]
        self.assertEqual(flops["model"], without["flops_per_token"]["plan"])
        self.assertAlmostEqual(flops["model"] + flops["mtp_modules"], flops["plan"])
        self.assertGreater(flops["mtp_modules"], 0)
        self.assertAlmostEqual(flops["relative_error"], 0)
        err = run("import", self.config(mixture))[2]
        self.assertRegex(err, r"FLOPs of a token.*\n  of the model .*\n  of its MTP modules .*\n  of the plan ")
        self.assertIn(f"  {told['active_parameters']:,} active of a token".strip(), err)
        self.assertIsNone(tandem_json("import", self.config(LLAMA))["active_parameters"])

    def test_dots_routes_by_sigmoids_whatever_its_file_calls_them(self):
        dots = {**SPARSE, "model_type": "dots1", "head_dim": 16, "num_key_value_heads": 4, "scoring_func": "noaux_tc"}
        told = tandem_json("import", self.config(dots))
        self.assertEqual((told["status"], told["document"]["model"]["moe"]["router_scores"]), ("read", "sigmoid"))
        self.assertIn("scoring_func", told["ignored"])

    def test_a_hidden_size_that_its_heads_do_not_divide_is_refused_as_transformers_does(self):
        for kind in ("llama", "arcee"):
            code, _, err = run("import", self.config({**LLAMA, "model_type": kind, "num_attention_heads": 6}))
            self.assertEqual(code, 4, err)
            self.assertIn("a hidden size that is no multiple of the heads", err)
        told = tandem_json("import", self.path("config.json"), "--approximate")
        self.assertEqual(told["document"]["model"]["head_dim"], 64 // 6)
        self.assertEqual(run("import", self.config({**LLAMA, "num_attention_heads": 6, "head_dim": 16}))[0], 0)

    def test_a_tower_that_the_file_does_not_describe_is_said_to_be_by_defaults(self):
        text = {**LLAMA, "model_type": "llama4_text", "num_key_value_heads": 2, "head_dim": 16, "intermediate_size_mlp": 96,
                "num_local_experts": 2, "num_experts_per_tok": 1}
        for more, said in (({}, True), ({"vision_config": {"hidden_size": 64}}, False)):
            err = run("import", self.config({"model_type": "llama4", "text_config": text, **more}), "--approximate")[2]
            self.assertIn("a tower for pictures", err)
            self.assertEqual("sizes of the tower for pictures, which the file leaves out" in err, said, err)

    def test_a_configuration_in_python_is_refused_and_not_run(self):
        code, out, err = run("import", self.folder.file("config_registry.py", "def llama3_8b():  # --training.steps 5\n    return 1\n"), "--cluster", "dgx-h100")
        self.assertEqual((code, out), (4, ""))
        self.assertIn("not implemented: a configuration in Python, which import does not run", err)
        self.assertIn("--debug.save_config_file", err)

    def test_the_file_that_torchtitan_saves_is_read(self):
        saved = {"model_spec": {"name": "llama3", "flavor": "8B"}, "training": {"steps": 5, "num_tokens_per_microbatch_per_dp_rank": 8192, "max_context_length": 8192,
                                                                                "disable_cuda_graphs": False},
                 "parallelism": {"tensor_parallel_degree": 2}, "activation_checkpoint": None,
                 "optimizer": {"param_groups": [{"pattern": ".*", "optimizer_name": "AdamW", "optimizer_kwargs": {"lr": 0.0003, "betas": [0.9, 0.95], "eps": 1e-08,
                                                                                                                  "weight_decay": 0.1}}]}}
        code, out, err = run("import", self.folder.file("saved.json", json.dumps(saved)), "--cluster", "dgx-h100", "--devices", "8")
        self.assertEqual(code, 0, err)
        plan = json.loads(out)
        self.assertEqual((plan["parallel"]["data"], plan["training"]["cuda_graphs"], plan["training"]["recompute"]), (4, "iteration", "none"))
        self.assertIn("whether products are in 8 or 4 bits", err)

    def test_unknown_types_and_what_is_no_configuration_are_bad_input(self):
        for fields, reason in (({**LLAMA, "model_type": "lama"}, 'model_type = "lama": is no model type that is known here; the nearest is "llama"'),
                               ({"hidden_size": 4}, "model_type: is missing"), ([1], "must be an object, not a list"),
                               ({**LLAMA, "num_attention_heads": "four"}, 'num_attention_heads = "four": must')):
            code, out, err = run("import", self.config(fields))
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn(reason, err)
        self.assertEqual(run("import", self.path("none.json"))[0], 3)

    def test_the_configuration_is_not_overwritten(self):
        config = self.config(LLAMA)
        code, _, err = run("import", config, "--out", config)
        self.assertEqual(code, 3, err)
        self.assertEqual(json.loads(pathlib.Path(config).read_text(encoding="utf-8")), LLAMA)

    def test_every_published_configuration_is_read_or_refused(self):
        models = json.loads((SOURCE / "tests/fixtures/huggingface.json").read_text(encoding="utf-8"))
        self.assertGreater(len(models), 80)
        for model in models:
            code, _, err = run("import", self.config(model["config"]))
            self.assertEqual(code, 4 if model["refused"] else 0, (model["name"], err))
            for name in model["refused"]:
                self.assertIn(f"not implemented: {name}", err)


if __name__ == "__main__":
    tandem.main()
