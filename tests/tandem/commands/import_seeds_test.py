#!/usr/bin/env python3
"""Commands of published scripts become the plans that were written of them by hand, field by field, with exact parameter counts."""
import json

import tandem
from tandem import SOURCE, WithFolder, run, tandem_json

# HabanaAI/Megatron-DeepSpeed 891d6db: scripts/run_llama.sh with HL_LLAMA_VER=2 HL_LLAMA_MODEL_SIZE=70 HL_NUM_NODES=4 HL_PP=4 HL_TP=8 HL_DP=1
LLAMA2 = """deepspeed --num_nodes 4 --num_gpus 8 --no_local_rank --no_python /usr/bin/bash -c "python3 -u pretrain_gpt.py --deepspeed
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672
  --num-attention-heads 64 --seq-length 4096 --micro-batch-size 1 --global-batch-size 1024 --train-iters 500000 --optimizer fusedadamw
  --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1e-8 --lr 1.5e-4 --min-lr 1.5e-5 --lr-decay-style cosine --lr-warmup-iters 2000
  --clip-grad 1.0 --weight-decay 0.1 --deepspeed_config=ds_config.json --zero-stage=0 --no-masked-softmax-fusion --no-bias-gelu-fusion
  --no-bias-dropout-fusion --no-gradient-accumulation-fusion --bf16 --max-position-embeddings 4096 --untie-embeddings-and-output-weights
  --swiglu --normalization rmsnorm --disable-bias-linear --no-query-key-layer-scaling --attention-dropout 0.0 --hidden-dropout 0.0
  --use-fused-sdpa 1 --use-fused-sdpa-with-recompute 0 --use-fused-rmsnorm 1 --use-rotary-position-embeddings
  --rotary-position-embeddings-theta 10000 --num-key-value-heads 8 --kill-switch-path k --sequence-parallel --verify-checkpoint
  --verify-checkpoint-model-type LLAMA --use-torch-compile=0 --vocab-size 32000"
"""
LLAMA2_JSON = {"train_batch_size": 1024, "train_micro_batch_size_per_gpu": 1, "steps_per_print": 10, "gradient_clipping": 1.0,
               "zero_optimization": {"stage": 0}, "zero_allow_untested_optimizer": True, "bf16": {"enabled": True, "immediate_grad_update": True},
               "fp16": {"enabled": False}, "wall_clock_breakdown": False, "pipeline": {"pipe_partitioned": False, "grad_partitioned": False},
               "timers": {"throughput": {"enabled": True, "synchronized": False}}}
# HabanaAI/Model-References 1.13.0: PyTorch/nlp/DeepSpeedExamples/Megatron-DeepSpeed/scripts/run_bloom13b.sh with HL_CKP_ACT=0, without its ramp
BLOOM = """deepspeed --num_nodes 1 --num_gpus 8 pretrain_gpt.py --deepspeed --tensor-model-parallel-size 4 --pipeline-model-parallel-size 1
  --num-layers 40 --hidden-size 5120 --ffn-hidden-size 20480 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048
  --micro-batch-size 1 --global-batch-size 1024 --train-samples 300000000 --optimizer adam --adam-beta1 0.9 --adam-beta2 0.999
  --adam-eps 1e-8 --lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-decay-samples 126953125 --lr-warmup-samples 216320 --clip-grad 1.0
  --weight-decay 0.1 --deepspeed_config=ds_config.json --zero-stage=0 --seed 42 --no-bias-dropout-fusion --no-bias-gelu-fusion
  --no-masked-softmax-fusion --use_hpu --distributed-backend=hccl --hpu-deterministic --bf16 --data-impl mmap --vocab-size 50257
"""
# aws-neuron/aws-neuron-reference-for-megatron-lm 868d46c: examples/pretrain_gpt3_6.7B_32layers_bf16.sh
NEURON = """NEURON_FUSE_SOFTMAX=1 XLA_USE_BF16=1 torchrun --nproc_per_node 32 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 32
  --hidden-size 4096 --num-attention-heads 32 --micro-batch-size 1 --global-batch-size 64 --seq-length 2048 --max-position-embeddings 2048
  --train-iters 10000 --lr-decay-iters 320000 --data-impl mmap --split 100,0,0 --distributed-backend xla --lr 0.00015
  --lr-decay-style cosine --min-lr 1.0e-5 --weight-decay 1e-2 --clip-grad 1 --lr-warmup-fraction .01 --attention-dropout 0
  --hidden-dropout 0 --no-masked-softmax-fusion --no-bias-gelu-fusion --no-bias-dropout-fusion --no-async-tensor-model-parallel-allreduce
  --no-contiguous-buffers-in-local-ddp --save-xser c --save-interval 2000 --keep-last-checkpoint-only --use-cpu-initialization --vocab-size 50257
"""
# microsoft/Megatron-DeepSpeed f4157bea: examples_deepspeed/MoE/ds_pretrain_gpt_1.3B_MoE128.sh and ds_config_gpt_TEMPLATE.json
EXPERTS = """deepspeed --num_nodes 8 --num_gpus 8 pretrain_gpt.py --adam-beta1 0.9 --adam-beta2 0.95 --tensor-model-parallel-size 1
  --moe-expert-parallel-size 64 --num-experts 128 --moe-loss-coeff 0.01 --moe-train-capacity-factor 1.0 --moe-eval-capacity-factor 1.0
  --moe-min-capacity 4 --init-method-std 0.014 --lr-decay-tokens 300000000000 --lr-warmup-tokens 375000000 --micro-batch-size 8
  --exit-duration-in-mins 30000000 --global-batch-size 512 --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048
  --max-position-embeddings 2048 --train-tokens 300000000000 --train-iters 858306 --lr 1.2e-4 --min-lr 1.0e-6 --lr-decay-style cosine
  --weight-decay 0.1 --clip-grad 1.0 --hysteresis 2 --num-workers 0 --fp16 --checkpoint-activations --create-moe-param-group --deepspeed
  --deepspeed_config ds_config.json --pipeline-model-parallel-size 1 --no-pipeline-parallel --deepspeed-activation-checkpointing
  --vocab-size 50257
"""
EXPERTS_JSON = {"train_batch_size": 512, "train_micro_batch_size_per_gpu": 8, "steps_per_print": 10, "zero_optimization": {"stage": 0},
                "gradient_clipping": 1.0, "prescale_gradients": True, "bf16": {"enabled": False},
                "fp16": {"enabled": True, "loss_scale": 0, "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1, "initial_scale_power": 11},
                "curriculum_learning": {"enabled": False, "curriculum_type": "seqlen", "min_difficulty": 80}}
# microsoft/Megatron-DeepSpeed f4157bea: examples_deepspeed/sequence_parallel/ds_pretrain_gpt_1.3B_seq_parallel_32k.sh on 8 devices
ULYSSES = """deepspeed --num_nodes 1 --num_gpus 8 pretrain_gpt.py --override-opt_param-scheduler --adam-beta1 0.9 --adam-beta2 0.95
  --tensor-model-parallel-size 1 --ds-sequence-parallel-size 4 --init-method-std 0.013 --lr-decay-tokens 300000000000
  --lr-warmup-tokens 3000000000 --micro-batch-size 1 --global-batch-size 2 --num-layers 24 --hidden-size 2048 --num-attention-heads 16
  --seq-length 32768 --max-position-embeddings 32768 --train-tokens 300000000000 --lr 2e-4 --min-lr 1e-6 --lr-decay-style cosine
  --weight-decay 0.1 --clip-grad 1.0 --hysteresis 2 --fp16 --no-async-tensor-model-parallel-allreduce --use-flash-attn-triton
  --checkpoint-activations --deepspeed --deepspeed_config ds_config.json --zero-stage 1 --pipeline-model-parallel-size 1
  --no-pipeline-parallel --deepspeed-activation-checkpointing --vocab-size 50257
"""
ULYSSES_JSON = {"train_batch_size": 2, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}, "gradient_clipping": 1.0,
                "fp16": {"enabled": True, "loss_scale": 0, "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1, "initial_scale_power": 11}}
SCALE = {"training.loss_scale.initial": (2048, 4294967296), "training.loss_scale.window": (500, 1000)}  # the file says it, the plan does not
WORDS = ("name", "notes", "model.name", "model.family")  # a family only sets defaults


def flat(section, prefix=""):
    out = {}
    for key, value in section.items():
        out.update(flat(value, prefix + key + ".") if isinstance(value, dict) else {prefix + key: value})
    return out


class Seeds(WithFolder):
    def compared(self, command, plan, cluster, config=None, stack=None):
        """Fields that differ from a plan of experiments/plans, with both values; and the imported plan's prediction."""
        if config:
            self.folder.file("ds_config.json", json.dumps(config))
        more = ["--stack", stack] if stack else []
        code, _, err = run("import", self.folder.file("run.args", command), "--cluster", cluster, "--out", self.path("plan.json"), *more)
        self.assertEqual(code, 0, err)
        got, ours = tandem_json("simulate", self.path("plan.json")), tandem_json("simulate", f"{SOURCE}/experiments/plans/{plan}.json")
        here, there = flat(got["plan"]), flat(ours["plan"])
        differ = {k: (here.get(k), there.get(k)) for k in here.keys() | there.keys() if here.get(k) != there.get(k) and k not in WORDS}
        return differ, tandem_json("explain", self.path("plan.json"))["parameters"]["total"]

    def test_llama2_70b_on_32_gaudi2(self):
        differ, parameters = self.compared(LLAMA2, "seeds/llama2-70b-gaudi2-32", "hls-gaudi2", LLAMA2_JSON, "megatron-deepspeed@2023-12")
        # One data rank shares nothing, and a decay over the whole run is a plan's default.
        self.assertEqual(differ, {"parallel.zero_stage": (1, 0), "training.decay_over": (0, 500000)})
        self.assertEqual(parameters, 68_976_648_192)

    def test_bloom_13b_on_8_gaudi2(self):
        differ, parameters = self.compared(BLOOM, "seeds/bloom13b-gaudi2-8", "hls-gaudi2", LLAMA2_JSON, "megatron-deepspeed@2023-12")
        self.assertEqual(differ, {})
        self.assertEqual(parameters, 40 * (12 * 5120**2 + 13 * 5120) + (50257 + 2048) * 5120 + 2 * 5120)

    def test_bloom_of_newer_code_tells_the_attention_that_its_stack_fills_in(self):
        # HabanaAI/Megatron-DeepSpeed 1.15.0 (2024-03-26): megatron/arguments.py, --use-fused-sdpa is on unless told otherwise; 2023 had none.
        config, command = self.folder.file("ds_config.json", json.dumps(LLAMA2_JSON)), self.folder.file("run.args", BLOOM)
        for stack, filled in (("megatron-deepspeed@2024-03", True), ("megatron-deepspeed@2023-12", None)):
            told = tandem_json("import", command, config, "--cluster", "hls-gaudi2", "--stack", stack)
            self.assertEqual(told["filled"].get("training.flash_attention"), filled)
            self.assertNotIn("training.seq_length", told["filled"])
            _, _, err = run("import", command, config, "--cluster", "hls-gaudi2", "--stack", stack, "--out", self.path("plan.json"))
            self.assertEqual("training.flash_attention" in err, filled is True)

    def test_gpt3_6_7b_on_a_trainium_node(self):
        differ, parameters = self.compared(NEURON, "gpt-6.7b-trn1", "trn1.32xlarge")
        # The command has an option of 2023; the plan is that of the first release, which published the figures.
        self.assertEqual(differ, {"stack.as_of": ("2023-08", "2022-10")})
        self.assertEqual(parameters, 32 * (12 * 4096**2 + 13 * 4096) + (50257 + 2048) * 4096 + 2 * 4096)

    def test_gpt_1_3b_with_128_experts(self):
        differ, _ = self.compared(EXPERTS, "seeds/gpt-1.3b-moe128", "dgx-a100-80gb", EXPERTS_JSON)
        self.assertEqual(differ, SCALE)

    def test_gpt_1_3b_at_32k_tokens_with_ulysses(self):
        differ, parameters = self.compared(ULYSSES, "seeds/gpt-1.3b-ulysses-32k", "dgx-a100-80gb", ULYSSES_JSON)
        self.assertEqual(differ, SCALE)
        self.assertEqual(parameters, 24 * (12 * 2048**2 + 13 * 2048) + (50257 + 32768) * 2048 + 2 * 2048)


if __name__ == "__main__":
    tandem.main()
