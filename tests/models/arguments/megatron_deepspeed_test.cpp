#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/cases.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::tests;
using nlohmann::json;

namespace {

const std::string kDeepspeed = "deepspeed --num_nodes 1 --num_gpus 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
                               "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 1 --global-batch-size 64 --deepspeed ";

struct Wanted {
  json file;            ///< the JSON file behind --deepspeed_config; null: none
  Month newest = {2024, 3};
};

arguments::ImportedPlan imported_with(const std::string& more, const Wanted& wanted) {
  const TemporaryFolder folder;
  const std::string options = folder.at("run.args"), text = kDeepspeed + more + (wanted.file.is_null() ? "" : " --deepspeed_config ds.json");
  if (!wanted.file.is_null()) folder.file("ds.json", wanted.file.dump());
  const arguments::PlanNeeds needs{"hls-gaudi2", 0, "", 0, wanted.newest};
  return arguments::import_arguments(text, options, arguments::table_of_options(text, options), needs);
}

json plan_of(const std::string& more, const Wanted& wanted = {}) {
  return json::parse(imported_with(more, wanted).document->dump());
}

std::string refused(const std::string& more) {
  const std::vector<Problem> problems = arguments::refusals(imported_with(more, {}));
  return problems.empty() ? "" : problems.front().reason;
}

}  // namespace

TEST_CASE("options of DeepSpeed choose its table") {
  const auto stack = [](const std::string& more) { return arguments::table_of_options(some_options(more), "run.args").stack; };
  CHECK(stack("") == "megatron-core");
  CHECK(stack("--deepspeed") == "megatron-deepspeed");
  CHECK(stack("--zero-stage 1") == "megatron-deepspeed");
  CHECK(stack("--deepspeed_config x.json") == "megatron-deepspeed");
  CHECK(stack("--distributed-backend xla") == "neuron-megatron");
  CHECK(arguments::table_of_options(some_options(), "run.args", "trainium1").stack == "neuron-megatron");
}

TEST_CASE("options of HabanaAI's LLaMA say its model") {
  // HabanaAI/Megatron-DeepSpeed 891d6db: scripts/run_llama.sh
  const json got = plan_of("--num-key-value-heads 2 --swiglu --normalization rmsnorm --disable-bias-linear --untie-embeddings-and-output-weights "
                           "--use-rotary-position-embeddings --rotary-position-embeddings-theta 500000 --optimizer fusedadamw --use-fused-sdpa 1 "
                           "--use-fused-rmsnorm 1 --bf16 --no-query-key-layer-scaling --verify-checkpoint --kill-switch-path k --zero-stage=0");
  CHECK(got["stack"] == "megatron-deepspeed");
  CHECK(got["cluster"]["devices"] == 8);
  CHECK(got["model"]["num_kv_heads"] == 2);
  CHECK(got["model"]["normalization"] == "rmsnorm");
  CHECK(got["model"]["position_embedding"] == "rope");
  CHECK(got["model"]["rope_theta"] == 500000);
  CHECK(got["model"]["linear_bias"] == false);
  CHECK(got["model"]["tie_embeddings"] == false);
  CHECK(got["training"]["optimizer"] == "adamw");
  CHECK(got["training"]["flash_attention"] == true);
  CHECK(got["training"]["precision"] == "bf16");
  CHECK(got["parallel"]["zero_stage"] == 1);  // BF16_Optimizer
  CHECK(got["training"]["dtypes"]["gradients"] == "fp32");
}

TEST_CASE("experts of Megatron-DeepSpeed have its options and defaults") {
  // microsoft/Megatron-DeepSpeed f4157bea: megatron/arguments.py, examples_deepspeed/MoE/ds_pretrain_gpt_1.3B_MoE128.sh
  const json got = plan_of("--num-experts 128 --moe-expert-parallel-size 8 --moe-loss-coeff 0.01 --no-pipeline-parallel --fp16 --create-moe-param-group "
                           "--lr 1e-4 --train-tokens 1310720000 --lr-decay-tokens 1000000000 --lr-warmup-tokens 375000000");
  CHECK(got["model"]["moe"]["num_experts"] == 128);
  CHECK(got["model"]["moe"]["experts_per_token"] == 1);
  CHECK(got["model"]["moe"]["layer_frequency"] == 2);
  CHECK(got["model"]["moe"]["capacity_factor"] == 1.0);
  CHECK(got["model"]["moe"]["aux_loss"] == 0.01);
  CHECK(got["parallel"]["expert"] == 8);
  CHECK(got["parallel"]["pipeline"] == 1);
  CHECK(got["training"]["learning_rate_unit"] == "tokens");
  CHECK(got["training"]["warmup"] == 375000000);
  CHECK(got["training"]["steps"] == 10000);  // 1310720000 / (64 x 2048)
  // deepspeedai/Megatron-DeepSpeed 4efb479d: megatron/training.py trains "while consumed_train_tokens < train_tokens".
  CHECK(plan_of("--train-tokens 1310720001")["training"]["steps"] == 10001);
  CHECK(plan_of("--global-batch-size 512 --train-tokens 300000000000 --rampup-batch-size 32 32 1953125")["training"]["steps"] == 295792);
  CHECK(plan_of("--num-experts 4 --topk 2 --disable-moe-token-dropping")["model"]["moe"]["capacity_factor"] == 0);
  CHECK_FALSE(plan_of("")["model"].contains("moe"));
}

TEST_CASE("the JSON file decides what DeepSpeed's engine decides") {
  const json file = {{"train_batch_size", 32}, {"train_micro_batch_size_per_gpu", 2}, {"gradient_clipping", 0.5}, {"fp16", {{"enabled", true}, {"initial_scale_power", 12}}},
                     {"zero_optimization", {{"stage", 2}, {"overlap_comm", true}, {"reduce_bucket_size", 1000}, {"offload_optimizer", {{"device", "cpu"}}}}}};
  const arguments::ImportedPlan read = imported_with("--fp16 --zero-stage 1 --clip-grad 1.0 --no-pipeline-parallel", {file});
  const json got = json::parse(read.document->dump());
  CHECK(got["parallel"]["zero_stage"] == 2);
  CHECK(got["parallel"]["overlap_grad_reduce"] == true);
  CHECK(got["parallel"]["bucket_bytes"] == 2000);
  CHECK(got["parallel"]["offload"]["optimizer"] == true);
  CHECK(got["training"]["micro_batch_size"] == 2);
  CHECK(got["training"]["global_batch_size"] == 32);
  CHECK(got["training"]["clip_grad"] == 0.5);
  CHECK(got["training"]["loss_scale"]["initial"] == 4096);
  CHECK(arguments::refusals(read).empty());
  CHECK(read.features.size() == 2);  // the options give another batch and another stage, and both are told
}

TEST_CASE("a JSON file that is not there is asked for") {
  arguments::PlanNeeds needs{"hls-gaudi2"};
  const std::string text = kDeepspeed + "--bf16 --deepspeed_config absent.json";
  const arguments::Table table = arguments::table_of_options(text, "run.args");
  try {
    arguments::import_arguments(text, "run.args", table, needs);
    FAIL("not refused");
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().message() == "run.args: --deepspeed_config = absent.json: names a file that is not at absent.json; "
                                            "give it behind run.args, or read the options alone with --approximate");
  }
  needs.approximate = true;
  const arguments::ImportedPlan read = arguments::import_arguments(text, "run.args", table, needs);
  CHECK(json::parse(read.document->dump())["training"]["precision"] == "bf16");
  REQUIRE(arguments::refusals(read).size() == 1);
  CHECK(arguments::refusals(read)[0].field == "deepspeed_config");
  CHECK(arguments::refusals(read)[0].value == "\"absent.json\"");
}

TEST_CASE("bf16 without ZeRO follows the month of the stack and the pipeline engine") {
  const json file = {{"bf16", {{"enabled", true}}}};
  const auto got = [&](const std::string& more, Month newest) {
    const json plan = plan_of("--bf16 " + more, {file, newest});
    return std::pair(plan["parallel"]["zero_stage"].get<int>(), plan["training"]["dtypes"]["gradients"].get<std::string>());
  };
  CHECK(got("", {2024, 3}) == std::pair(1, std::string("fp32")));
  CHECK(got("", {2025, 9}) == std::pair(1, std::string("bf16")));
  CHECK(got("--no-pipeline-parallel", {2025, 9}) == std::pair(0, std::string("bf16")));
}

TEST_CASE("what changes a step of Megatron-DeepSpeed and no plan says is refused") {
  CHECK(refused("--random-ltd") == "not implemented: tokens that layers drop (random LTD)");
  CHECK(refused("--num-experts 64 128 --mlp-type standard").find("PR-MoE") != std::string::npos);
  CHECK(refused("--num-experts 8 --mlp-type residual").find("an MLP beside the experts") != std::string::npos);
  CHECK(plan_of("--checkpoint-activations --checkpoint-in-cpu")["parallel"]["offload"]["activations"] == json{"all"});
  CHECK(refused("--checkpoint-activations --partition-activations").find("that tensor ranks share") != std::string::npos);
  CHECK(refused("--use-tutel").find("that no field of a plan says") != std::string::npos);
  CHECK(refused("--kd").find("a teacher") != std::string::npos);
}

TEST_CASE("8 bits of HabanaAI's scripts are read with the layers that compute them") {
  // HabanaAI/Megatron-DeepSpeed 1.15.0: scripts/run_llama.sh, HL_USE_TRANSFORMER_ENGINE=1 adds both options
  const std::string engine = "--bf16 --transformer-impl transformer_engine ";
  for (const char* format : {"--fp8-hybrid", "--fp8-e5m2"}) {
    CHECK(plan_of(engine + format + " --cache-fp8-weight-fwd True --fp8-interval 16")["training"]["precision"] == "fp8");
    CHECK(refused(engine + format).empty());
  }
  CHECK(refused(engine) == "not implemented: layers of Transformer Engine without 8-bit products");
  CHECK(refused("--transformer-impl local").empty());
}

TEST_CASE("names of older code are those of today") {
  // NVIDIA/Megatron-LM v2.5: megatron/arguments.py; HabanaAI/DeepSpeed 1.15.0: deepspeed/runtime/bf16_optimizer.py
  for (const char* option : {"--override-lr-scheduler", "--use-checkpoint-lr-scheduler"}) {
    CHECK(refused(option).empty());
    CHECK(arguments::refusals(imported(some_options(option))).empty());
  }
  const json file = {{"bf16", {{"enabled", true}, {"accumulate_grads_via_hooks", true}}}};
  CHECK(arguments::refusals(imported_with("--bf16", {file})).empty());
  const json plain = {{"bf16", {{"enabled", true}}}};
  for (const char* section : {"model", "parallel", "training"}) CHECK(plan_of("--bf16", {file})[section] == plan_of("--bf16", {plain})[section]);
}

TEST_CASE("AWS's Megatron-LM trains in bf16 where the environment casts") {
  // aws-neuron/aws-neuron-reference-for-megatron-lm 868d46c: examples/pretrain_gpt3_6.7B_32layers_bf16.sh
  const auto read = [](const std::string& variables) {
    const std::string text = variables + "torchrun --nproc_per_node 32 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 32 --hidden-size 4096 "
                             "--num-attention-heads 32 --micro-batch-size 1 --global-batch-size 64 --seq-length 2048 --max-position-embeddings 2048 "
                             "--vocab-size 50257 --distributed-backend xla --attention-dropout 0 --hidden-dropout 0 --save-xser p --data-impl mmap "
                             "--no-contiguous-buffers-in-local-ddp --no-async-tensor-model-parallel-allreduce";
    return arguments::import_arguments(text, "run.args", arguments::table_of_options(text, "run.args"), {"trn1.32xlarge"});
  };
  const arguments::ImportedPlan cast = read("NEURON_FUSE_SOFTMAX=1 XLA_USE_BF16=1 ");
  const json got = json::parse(cast.document->dump());
  CHECK(arguments::refusals(cast).empty());
  CHECK(got["stack"] == "neuron-megatron");
  CHECK(got["training"]["precision"] == "bf16");
  CHECK(got["model"]["linear_bias"] == true);
  CHECK(got["model"]["position_embedding"] == "learned");
  CHECK(got["parallel"]["tensor"] == 8);
  REQUIRE(arguments::refusals(read("")).size() == 1);
  CHECK(arguments::refusals(read(""))[0].reason == "not implemented: a run without XLA_USE_BF16=1 in front of the command");
}
