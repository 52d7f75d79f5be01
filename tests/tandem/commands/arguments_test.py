#!/usr/bin/env python3
"""Megatron-LM's options and logs become plans and records, and plans become options."""
import json
import pathlib

import tandem
from tandem import WithFolder, run, tandem_json

OPTIONS = """torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16
  --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 1 --global-batch-size 64 --bf16
  --tensor-model-parallel-size 2 --use-distributed-optimizer --save /checkpoints --delay-wgrad-compute\n"""


def printed(values, times):
    """A log: the block of arguments and lines of iterations."""
    block = "".join(f"[rank0]:  {name} {'.' * (48 - len(name))} {value}\n" for name, value in sorted(values.items()))
    lines = "".join(f" iteration {i + 1}/ 9 | elapsed time per iteration (ms): {ms} | lm loss: 1.0\n" for i, ms in enumerate(times))
    return f"------------- arguments -------------\n{block}------------- end of arguments -------------\n{lines}"


LOG = {"num_layers": 8, "hidden_size": 1024, "num_attention_heads": 16, "seq_length": 2048, "max_position_embeddings": 2048,
       "padded_vocab_size": 50304, "micro_batch_size": 1, "global_batch_size": 64, "bf16": True, "world_size": 16, "kv_channels": 64,
       "tensor_model_parallel_size": 2, "use_distributed_optimizer": True, "num_query_groups": 1, "attention_backend": "AttnBackend.auto",
       "adlr_autoresume_interval": 1000, "data_parallel_size": 8, "params_dtype": "torch.bfloat16"}


class Arguments(WithFolder):
    def test_options_become_a_plan_that_is_simulated_and_goes_back(self):
        options = self.folder.file("run.args", OPTIONS)
        code, out, err = run("import", options, "--cluster", "dgx-h100", "--out", self.path("run.json"))
        self.assertEqual((code, out), (0, ""), err)
        self.assertRegex(err, r"used\n(.*\n)*  parallel\.tensor +2 +tensor_model_parallel_size\n")
        self.assertRegex(err, r"not given: the framework's default\n(.*\n)*  training\.dropout\.hidden +0\.1 +hidden_dropout\n")
        self.assertIn("changes no operation: save\n", err)
        self.assertRegex(err, r"  parallel\.bucket_bytes +1125899906842624 \(all gradients at once\)\n")
        self.assertIn("  told: weight gradients put off until the exchange of tokens (delay_wgrad_compute = true)", err)
        self.assertEqual(tandem_json("simulate", self.path("run.json"))["plan"]["parallel"]["data"], 8)
        code, out, err = run("export", self.path("run.json"), "--to", "megatron-core")
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.startswith("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py \\\n  --num-layers 8 \\\n"), out)
        told = tandem_json("export", self.path("run.json"), "--to", "megatron-core")
        self.assertIn({"option": "--tensor-model-parallel-size", "value": "2"}, told["options"])
        self.assertEqual((told["unsaid"], told["text"]), ([], out))
        again = tandem_json("import", self.folder.file("again.args", out), "--cluster", "dgx-h100")["document"]
        first = json.loads(pathlib.Path(self.path("run.json")).read_text())
        for section in ("parallel", "training"):
            self.assertEqual({**again[section], **first[section]}, again[section])

    def test_options_of_a_hybrid_model_are_simulated_and_go_back(self):
        options = OPTIONS.replace("pretrain_gpt.py --num-layers 8", "pretrain_hybrid.py --hybrid-layer-pattern M-M*ME --num-experts 8 --sequence-parallel "
                                  "--disable-bias-linear --spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec")
        self.assertEqual(run("import", self.folder.file("run.args", options), "--cluster", "dgx-h100", "--out", self.path("run.json"))[0], 0)
        self.assertGreater(tandem_json("simulate", self.path("run.json"))["step_time_s"], 0)
        code, out, err = run("export", self.path("run.json"), "--to", "megatron-core")
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.startswith("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 2 --nproc-per-node 8 pretrain_hybrid.py \\\n  --hybrid-layer-pattern 'M-M*ME' \\\n"), out)

    def test_a_rack_is_launched_as_its_hosts(self):
        plan = {"stack": "megatron-core", "model": {"preset": "llama3-8b"}, "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 512}}
        for preset, devices, hosts, each in (("gb200-nvl72", 128, 32, 4), ("gb200-nvl72", 2, 1, 2), ("p6e-gb200.36xlarge", 64, 16, 4), ("dgx-b200", 64, 8, 8)):
            plan["cluster"] = {"preset": preset, "devices": devices}
            code, out, err = run("export", self.folder.file("rack.json", json.dumps(plan)), "--to", "megatron-core")
            self.assertEqual((code, err), (0, ""))
            self.assertIn(f"torchrun --nnodes {hosts} --nproc-per-node {each} ", out)

    def test_a_log_becomes_a_plan_and_a_record(self):
        log = self.folder.file("train.log", printed(LOG, [9000, 410, 400, 430]) + "[Rank 1] memory (MB) | max allocated: 2048.0 |\n")
        code, _, err = run("import", log, "--cluster", "dgx-h100", "--out", self.path("run.json"), "--record", self.path("runs.jsonl"))
        self.assertEqual(code, 0, err)
        self.assertNotIn("adlr_autoresume_interval", err)  # it has its default
        record = json.loads(pathlib.Path(self.path("runs.jsonl")).read_text())
        self.assertEqual(record["measured"], {"step_time_s": 0.41, "peak_memory_bytes": 2 << 30, "peak_memory_kind": "allocated"})
        judged = tandem_json("validate", self.path("runs.jsonl"))["records"]
        self.assertEqual([(r["id"], r["measured_step_time_s"]) for r in judged], [("train", 0.41)])

    def test_a_log_with_its_times_in_seconds_gives_the_same_record(self):
        # Lines as BLOOM's program wrote them: bigscience-workshop/bigscience, train/tr11-176B-ml/chronicles.md
        records = []
        for unit, times in (("ms", (9000.0, 410.0, 420.0, 400.0)), ("s", ("9.00", "0.41", "0.42", "0.40"))):
            log = self.folder.file(f"{unit}.log", printed(LOG, times).replace("iteration (ms)", f"iteration ({unit})"))
            code, _, err = run("import", log, "--cluster", "dgx-h100", "--out", self.path("run.json"), "--record", self.path("runs.jsonl"))
            self.assertEqual(code, 0, err)
            records.append(json.loads(pathlib.Path(self.path("runs.jsonl")).read_text())["measured"])
        self.assertEqual(records, [{"step_time_s": 0.41}] * 2)

    def test_lines_of_a_ramp_up_are_no_steps_of_the_plan(self):
        block, lines = printed(LOG, [9000, 100, 110, 120, 410, 400, 430]).split(" iteration ", 1)
        batches = iter([16, 16, 32, 32, 64, 64, 64])
        ramp = [f" iteration {line}" + f" | global batch size: {next(batches):5d} |" for line in lines.strip().split("\n iteration ")]
        for end, expected in ((7, 0.41), (4, None)):
            log = self.folder.file("train.log", block + "\n".join(ramp[:end]) + "\n")
            code, _, err = run("import", log, "--cluster", "dgx-h100", "--out", self.path("run.json"), "--record", self.path("runs.jsonl"))
            if expected is None:
                self.assertEqual(code, 3)
                self.assertIn("no step has that of the plan, 64", err)
                continue
            self.assertEqual(code, 0, err)
            record = json.loads(pathlib.Path(self.path("runs.jsonl")).read_text())
            self.assertEqual(record["measured"], {"step_time_s": expected})
            self.assertEqual(record["notes"], "The step time is the median of 3 lines of the log, without 3 of other batches.")

    def test_a_log_longer_than_what_is_read_at_once_gives_the_same_record(self):
        noise = "".join(f" [rank{i}] loading shard {i} ... done\n" for i in range(1000)) * 2200  # of 64 MiB and more
        self.assertGreater(len(noise), 64 << 20)
        block, lines = printed(LOG, [9000, 410, 400, 430]).split("end of arguments")
        records = []
        for text in ("", noise):
            log = self.folder.file("train.log", text + block + "end of arguments" + text + lines + "| max allocated: 2048.0 |\n" + text)
            code, _, err = run("import", log, "--cluster", "dgx-h100", "--out", self.path("run.json"), "--record", self.path("runs.jsonl"))
            self.assertEqual(code, 0, err)
            records.append(json.loads(pathlib.Path(self.path("runs.jsonl")).read_text()))
        self.assertEqual(records[0], records[1])
        self.assertEqual(records[1]["measured"]["step_time_s"], 0.41)

    def test_what_cannot_be_said_is_refused_by_name(self):
        for more, part in (("--hiden-dropout 0", "hiden_dropout = 0: not implemented: an option that is not known here"),
                           ("--use-ring-exchange-p2p", "use_ring_exchange_p2p = true: not implemented: an option that no field of a plan says")):
            code, out, err = run("import", self.folder.file("run.args", OPTIONS + more), "--cluster", "dgx-h100")
            self.assertEqual((code, out), (4, ""), err)
            self.assertIn(part, err)
        options = self.folder.file("run.args", OPTIONS + "--optimizer lion --hiden-dropout 0")
        code, _, err = run("import", options, "--cluster", "dgx-h100")
        self.assertEqual(code, 4)
        self.assertIn('optimizer = "lion": not implemented: this optimizer', err)
        self.assertIn("no argument of the framework that is known here: hiden_dropout (the nearest is --hidden-dropout)", err)
        code, out, _ = run("import", options, "--cluster", "dgx-h100", "--approximate")
        self.assertEqual((code, json.loads(out)["training"]["optimizer"]), (0, "adamw"))
        plan = json.loads(out)
        plan["model"]["logit_soft_cap"] = 30
        code, out, err = run("export", self.folder.file("plan.json", json.dumps(plan)), "--to", "megatron-core")
        self.assertEqual((code, out), (4, ""))
        self.assertIn("model.logit_soft_cap = 30.0, read back as 0.0: no option of megatron-core says it", err)
        code, out, err = run("export", self.path("plan.json"), "--to", "megatron-core", "--approximate")
        self.assertEqual(code, 0)
        self.assertIn("no option of megatron-core says model.logit_soft_cap", err)

    def test_a_configuration_of_deepspeed_needs_a_model_and_comes_back(self):
        config = self.folder.file("ds.json", json.dumps({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True},
                                                         "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}}))
        rest = ["--cluster", "dgx-h100", "--devices", "8", "--out", self.path("zero.json")]
        for more, part in (([], "--model: is missing"), (["--model", "llama3-8b"], "--seq-length: is missing")):
            code, _, err = run("import", config, *more, *rest)
            self.assertEqual(code, 3)
            self.assertIn(part, err)
        code, _, err = run("import", config, "--model", "llama3-8b", "--seq-length", "2048", *rest)
        self.assertEqual(code, 0, err)
        self.assertIn("left to the program (\"auto\"): zero_optimization.reduce_bucket_size\n", err)
        told = tandem_json("export", self.path("zero.json"), "--to", "deepspeed")
        self.assertEqual((told["unsaid"], json.loads(told["text"])["zero_optimization"]["stage"]), ([], 2))

    def test_the_usual_configuration_of_the_trainer_is_read(self):
        # huggingface/transformers: docs/source/en/deepspeed.md, ZeRO 3 with offload
        auto = {name: "auto" for name in ("lr", "betas", "eps", "weight_decay")}
        zero = {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "overlap_comm": True, "contiguous_gradients": True,
                "sub_group_size": 1e9, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_max_live_parameters": 1e9,
                "stage3_gather_16bit_weights_on_model_save": True}
        config = self.folder.file("ds.json", json.dumps({"bf16": {"enabled": True}, "fp16": {"enabled": False, "loss_scale_window": 500},
                                                         "optimizer": {"type": "AdamW", "params": auto}, "zero_optimization": zero,
                                                         "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
                                                         "train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2, "steps_per_print": 2000}))
        code, out, err = run("import", config, "--model", "llama3-8b", "--seq-length", "2048", "--cluster", "dgx-h100", "--devices", "8")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["parallel"]["offload"], {"optimizer": True, "ratio": 1.0})
        self.assertIn("stack deepspeed as of 2026-08\n", err)

    def test_a_shell_script_of_the_trainer_is_a_plan_that_is_simulated(self):
        script = """#!/bin/bash
GPUS=8
ARGS=(--model_name_or_path Qwen/Qwen3-0.6B --data_path d.json --model_max_length 2048 --per_device_train_batch_size 1)
torchrun --nproc_per_node $GPUS --master_addr $MASTER_ADDR train.py "${ARGS[@]}" --gradient_accumulation_steps 4 --bf16 True \\
  --fsdp "full_shard auto_wrap" --gradient_checkpointing --max_steps 10 --output_dir $OUT 2>&1 | tee log
"""
        plan = self.path("plan.json")
        code, _, err = run("import", self.folder.file("run.sh", script), "--cluster", "dgx-h100", "--out", plan)
        self.assertEqual(code, 0, err)
        self.assertIn("told: options of the script's own (data_path = \"d.json\"); instead: the plan without them\n", err)
        self.assertIn("no argument of the framework that is known here: data_path\n", err)
        got = tandem_json("simulate", plan)
        self.assertGreater(got["step_time_s"], 0)
        document = json.loads(pathlib.Path(plan).read_text())
        self.assertEqual((document["training"]["global_batch_size"], document["cluster"]["devices"], document["parallel"]["zero_stage"]), (32, 8, 3))
        code, _, err = run("import", self.folder.file("slip.sh", script.replace("--max_steps", "--max_step")), "--cluster", "dgx-h100")
        self.assertEqual(code, 4)
        self.assertIn("max_step = 10: not implemented: an option that is nearly max_steps", err)

    def test_bad_inputs_are_refused(self):
        for text, more, code, part in ((OPTIONS, [], 3, "--cluster: is missing"),
                                       ("#!/bin/sh\nif true; then\n" + OPTIONS.replace("\n ", " \\\n ") + "fi\n", ["--cluster", "dgx-h100"], 3, "stands in a condition"),
                                       (OPTIONS, ["--cluster", "dgx-h100", "--record", self.path("r")], 3, "nothing was measured"),
                                       (OPTIONS, ["--cluster", "dgx-h100", "--model", "llama3-8b"], 2, "is for a framework's file"),
                                       (OPTIONS, ["--cluster", "dgx-h100", "--set", "vocab_size=32000"], 2, "append the option to them"),
                                       (OPTIONS.replace("gpt.py", "ict.py"), ["--cluster", "dgx-h100"], 4, "program = pretrain_ict.py"),
                                       ("HL_PP=2 HL_TP=4 scripts/run_bloom13b.sh", ["--cluster", "hls-gaudi2"], 3, "deepspeed() {"),
                                       (OPTIONS, ["--cluster", "dgx-h100", "--stack", "megatron"], 3, "megatron"),
                                       (OPTIONS, [self.path("ds.json"), "--cluster", "dgx-h100"], 3, "add --deepspeed to them"),
                                       (OPTIONS + "--deepspeed_config absent.json", ["--cluster", "dgx-h100"], 3, "give it behind"),
                                       (OPTIONS.replace("-size 64", "-size 60"), ["--cluster", "dgx-h100"], 4, "training.global_batch_size"),
                                       (OPTIONS.replace("layers 8", "layers eight"), ["--cluster", "dgx-h100", "--out", self.path("plan.json")], 3,
                                        "bad.args: num_layers = \"eight\": is no value that the framework takes; write a whole number")):
            with self.subTest(part):
                got, _, err = run("import", self.folder.file("bad.args", text), *more)
                self.assertEqual(got, code, err)
                self.assertIn(part, err)


if __name__ == "__main__":
    tandem.main()
