// Arguments of alibaba/Pai-Megatron-Patch a098ca5, as its examples' shell gives them.

#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

const std::string kEvery = " --micro-batch-size 1 --global-batch-size 128 --seq-length 4096 --max-padding-length 4096 --swiglu --normalization RMSNorm "
                           "--norm-epsilon 1e-6 --use-rotary-position-embeddings --position-embedding-type rope --disable-bias-linear --bf16 --dataset MMAP "
                           "--train-mode pretrain --patch-tokenizer-type Qwen3Tokenizer --transformer-impl transformer_engine --use-distributed-optimizer ";

std::string command(const std::string& program, const std::string& more) {
  return "torchrun --nproc_per_node 8 --nnodes 4 --node_rank 0 --master_addr localhost " + program + kEvery + more;
}

// examples/qwen3/run_mcore_qwen3.sh, 0.6B.
const std::string kQwen3 = "--num-layers 28 --hidden-size 1024 --num-attention-heads 16 --ffn-hidden-size 3072 --max-position-embeddings 40960 "
                           "--rotary-base 1000000 --qk-layernorm --kv-channels 128 --group-query-attention --num-query-groups 8 ";

arguments::ImportedPlan imported(const std::string& text) {
  return arguments::import_arguments(text, "run.args", arguments::table_of_options(text, "run.args"), {"dgx-h100", 0});
}

std::int64_t parameters(const std::string& text) {
  const Plan plan = parse_plan(imported(text).document->dump(), "plan.json", PlanContext{generation_of});
  return count_parameters(plan.model, plan.model.vocab_size).total;
}

std::string refused(const std::string& text) {
  const std::vector<Problem> problems = arguments::refusals(imported(text));
  return problems.empty() ? "" : problems.front().message();
}

}  // namespace

TEST_CASE("examples of Pai-Megatron-Patch have the parameters of their models on the hub") {
  CHECK(parameters(command("pretrain_qwen.py", kQwen3 + "--padded-vocab-size 151936")) == 596'049'920);  // Qwen/Qwen3-0.6B
  // examples/qwen3_next/run_mcore_qwen3.sh; Qwen/Qwen3-Next-80B-A3B-Base.
  std::string pattern;
  for (int i = 0; i < 12; ++i) pattern += "M-M-M-*-";
  CHECK(parameters(command("pretrain_qwen3_next.py", "--num-layers 96 --hidden-size 2048 --num-attention-heads 16 --ffn-hidden-size 5120 "
        "--max-position-embeddings 262144 --padded-vocab-size 151936 --rotary-base 10000000 --qk-layernorm --kv-channels 256 --rotary-percent 0.25 "
        "--apply-layernorm-1p --moe-router-topk 10 --num-experts 512 --moe-ffn-hidden-size 512 --moe-shared-expert-intermediate-size 512 "
        "--moe-grouped-gemm --moe-token-dispatcher-type alltoall --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2 "
        "--hybrid-attention-ratio 0.125 --hybrid-mlp-ratio 0.5 --is-hybrid-model --mamba-state-dim 128 --mamba-head-dim 128 --mamba-num-groups 16 "
        "--mamba-num-heads 32 --hybrid-override-pattern " + pattern)) == 79'674'391'296);
  // examples/qwen2/run_mcore_qwen2_moe.sh, A14B: the patch's shared experts have a gate.
  CHECK(parameters(command("pretrain_qwen2_moe.py", "--num-layers 28 --hidden-size 3584 --num-attention-heads 28 --ffn-hidden-size 18944 "
        "--max-position-embeddings 131072 --extra-vocab-size 293 --vocab-size 151643 --untie-embeddings-and-output-weights --rotary-base 1000000 "
        "--group-query-attention --num-query-groups 4 --add-qkv-bias --moe-grouped-gemm --moe-token-dispatcher-type alltoall --moe-router-topk 8 "
        "--num-experts 64 --moe-ffn-hidden-size 2560 --moe-layer-freq ([1]*28) --moe-shared-expert-intermediate-size 20480 --moe-layer-recompute")) ==
        57'408'658'944);
}

TEST_CASE("the patch adds extra words to the tokenizer's and pads no further") {
  const auto model = [](const std::string& more) { return json::parse(imported(command("pretrain_qwen.py", kQwen3 + more)).document->dump())["model"]; };
  CHECK(model("--extra-vocab-size 421 --vocab-size 151643")["vocab_size"] == 152064);
  CHECK(model("--extra-vocab-size 421 --vocab-size 151643")["pad_vocab_to"] == 1);
  CHECK(model("--padded-vocab-size 151936")["vocab_size"] == 151936);
  CHECK_THROWS_AS(model("--extra-vocab-size 421"), ConfigError);  // the tokenizer is not read
}

TEST_CASE("programs and options of the patch that no plan says are refused by name") {
  CHECK_THROWS_AS(imported(command("pretrain_megatron_qwen.py", kQwen3 + "--padded-vocab-size 151936")), InfeasibleError);  // models of its own
  CHECK(refused(command("pretrain_qwen.py", kQwen3 + "--padded-vocab-size 151936 --disable-vision-class-token")).find("a tower for pictures") != std::string::npos);
  CHECK(refused(command("pretrain_qwen.py", kQwen3 + "--padded-vocab-size 151936 --sliding-window 1024")).find("--sliding-window") != std::string::npos);
  CHECK(refused(command("pretrain_qwen.py", kQwen3 + "--padded-vocab-size 151936 --use-tutel")).find("use_tutel") != std::string::npos);
}
