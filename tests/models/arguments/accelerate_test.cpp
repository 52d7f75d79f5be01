#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;
using tests::field;

namespace {

/// What `accelerate config` writes for eight processes.
std::string some_file(const std::string& type, const std::string& more = "", const std::string& precision = "bf16") {
  return "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: " + type + "\ndowncast_bf16: 'no'\nmachine_rank: 0\n"
         "main_training_function: main\nmixed_precision: " + precision + "\nnum_machines: 1\nnum_processes: 8\nrdzv_backend: static\n"
         "same_network: true\ntpu_env: []\ntpu_use_cluster: false\ntpu_use_sudo: false\nuse_cpu: false\n" + more;
}

std::string sharded(const std::string& fields) { return some_file("FSDP", "fsdp_config: {" + fields + "}\n"); }

arguments::ImportedPlan imported(const std::string& text, std::vector<std::pair<std::string, json>> set = {{"per_device_train_batch_size", 2}}) {
  arguments::PlanNeeds needs{"dgx-h100", 0, "llama3-8b", 4096, {2026, 8}};
  needs.set = std::move(set);
  return arguments::import_arguments(text, "accelerate.yaml", arguments::read_table("accelerate"), needs);
}

std::string refusal(const std::string& text) {
  const std::vector<Problem> problems = arguments::refusals(imported(text));
  return problems.empty() ? "" : problems.front().message();
}

}  // namespace

TEST_CASE("Accelerate's file is recognised, and no other framework takes it for its own") {
  const json file = {{"distributed_type", "FSDP"}, {"mixed_precision", "bf16"}, {"num_processes", 8}};
  CHECK(arguments::read_table("accelerate").recognises(file));
  CHECK_FALSE(arguments::read_table("megatron-bridge").recognises(file));
}

TEST_CASE("a file of Accelerate with the script's batch is a whole plan") {
  const arguments::ImportedPlan plan = imported(sharded("fsdp_version: 2, fsdp_reshard_after_forward: true, fsdp_activation_checkpointing: true, fsdp_offload_params: false"),
                                                {{"per_device_train_batch_size", 2}, {"gradient_accumulation_steps", 4}});
  CHECK(field(plan, "stack") == "pytorch-fsdp");
  CHECK(field(plan, "cluster.devices") == 8);
  CHECK(field(plan, "parallel.zero_stage") == 3);
  CHECK(field(plan, "training.recompute") == "full");
  CHECK(field(plan, "training.global_batch_size") == 2 * 4 * 8);
  CHECK(field(plan, "training.precision") == "bf16");
  CHECK(plan.unknown.empty());
  CHECK(plan.unsaid.empty());
  CHECK(arguments::refusals(plan).empty());
  CHECK(parse_plan(plan.document->dump(), "plan.json").parallel.data == 8);
  CHECK_THROWS_AS(imported(sharded("fsdp_version: 2"), {}), ConfigError);  // no batch
}

// utils/dataclasses.py, FullyShardedDataParallelPlugin: words, numbers or a switch by fsdp_version.
TEST_CASE("shards of Accelerate have three spellings") {
  const auto stage = [](const std::string& fields) { return field(imported(sharded(fields)), "parallel.zero_stage"); };
  CHECK(stage("fsdp_version: 2, fsdp_reshard_after_forward: false") == 2);
  CHECK(stage("fsdp_sharding_strategy: SHARD_GRAD_OP") == 2);
  CHECK(stage("fsdp_sharding_strategy: 2") == 2);
  CHECK(stage("fsdp_reshard_after_forward: FULL_SHARD") == 3);
  CHECK(stage("fsdp_sharding_strategy: NO_SHARD") == 0);
  CHECK(stage("") == 3);
  CHECK(refusal(sharded("fsdp_sharding_strategy: SOME_SHARD")).find("shards of this name") != std::string::npos);
  CHECK(refusal(sharded("fsdp_auto_wrap_policy: NO_WRAP")).find("other units than layers") != std::string::npos);
}

TEST_CASE("DeepSpeed, offloading and ranks of a sequence are read of Accelerate's groups") {
  const arguments::ImportedPlan plan = imported(some_file("DEEPSPEED", "deepspeed_config: {zero_stage: 3, offload_optimizer_device: cpu, offload_param_device: none, gradient_clipping: 0.5}\n"
                                                                       "parallelism_config: {parallelism_config_sp_size: 2}\n"));
  CHECK(field(plan, "stack") == "deepspeed");
  CHECK(field(plan, "parallel.zero_stage") == 3);
  CHECK(field(plan, "parallel.offload.optimizer") == true);
  CHECK(field(plan, "parallel.offload.parameters").is_null());
  CHECK(field(plan, "parallel.context_mode") == "ulysses");
  CHECK(field(plan, "training.global_batch_size") == 2 * 4);
  CHECK(field(plan, "training.clip_grad") == 0.5);
  CHECK(field(imported(some_file("DEEPSPEED", "deepspeed_config: {gradient_accumulation_steps: 4}\n")), "parallel.zero_stage") == 2);  // its default
  CHECK(refusal(some_file("DEEPSPEED", "deepspeed_config: {deepspeed_config_file: ds.json}\n")).find("a file of DeepSpeed's") != std::string::npos);
}

TEST_CASE("replicas of Accelerate have all weights, in fp32 beside 16-bit products") {
  const arguments::ImportedPlan plan = imported(some_file("MULTI_GPU"));
  CHECK(field(plan, "stack") == "pytorch-ddp");
  CHECK(field(plan, "training.dtypes.weights") == "fp32");
  CHECK(field(imported(some_file("MULTI_GPU", "", "'no'")), "training.precision") == "fp32");
  CHECK(field(imported(some_file("MULTI_GPU", "dynamo_config: {dynamo_backend: INDUCTOR}\n")), "training.fusion") == "compiled");
  CHECK(refusal(some_file("MEGATRON_LM")).find("a framework of this kind") != std::string::npos);
  std::string hosts = some_file("MULTI_GPU");
  hosts.replace(hosts.find("use_cpu: false"), 14, "use_cpu: true");
  CHECK(refusal(hosts).find("a run on processors") != std::string::npos);
  CHECK(refusal(some_file("MULTI_GPU", "", "fp8")).find("products in 8 bits") != std::string::npos);
}
