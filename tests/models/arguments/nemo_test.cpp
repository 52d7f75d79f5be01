#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

/// A LLaMA of NeMo 1 on 4 nodes, and `more` fields of its model.
std::string some_nemo(const std::string& more = "", const std::string& optim = "{name: mcore_distributed_optim, lr: 3e-4}") {
  return "trainer: {devices: 8, num_nodes: 4, precision: bf16, max_steps: 1000, gradient_clip_val: 1.0}\n"
         "exp_manager: {name: a_run, model_parallel_size: '${multiply:${model.tensor_model_parallel_size}, 1}'}\n"
         "model:\n  mcore_gpt: true\n  transformer_engine: true\n  megatron_amp_O2: true\n  micro_batch_size: 2\n  global_batch_size: 64\n"
         "  tensor_model_parallel_size: 2\n  sequence_parallel: true\n  encoder_seq_length: 2048\n  num_layers: 12\n  hidden_size: 768\n"
         "  ffn_hidden_size: ${multiply:4, ${.hidden_size}}\n  num_attention_heads: 12\n  activation: fast-swiglu\n  normalization: rmsnorm\n"
         "  position_embedding_type: rope\n  bias: false\n  tokenizer: {library: huggingface, type: meta-llama/Meta-Llama-3-8B}\n"
         "  optim: " + optim + "\n" + more;
}

arguments::ImportedPlan imported(const std::string& text, const arguments::PlanNeeds& needs = {"dgx-h100"}) {
  arguments::PlanNeeds wanted = needs;
  wanted.newest = {2026, 8};
  return arguments::import_arguments(text, "run.yaml", arguments::read_table("nemo"), wanted);
}

using tests::field;

json field(const std::string& text, const std::string& path) { return field(imported(text), path); }

bool has_feature(const arguments::ImportedPlan& plan, const std::string& words) {
  const auto says = [&](const auto& f) { return f.name.find(words) != std::string::npos; };
  return std::any_of(plan.features.begin(), plan.features.end(), says);
}

std::string refusal(const std::string& text, const arguments::PlanNeeds& needs = {"dgx-h100"}) {
  try {
    imported(text, needs);
  } catch (const ConfigError& e) {
    return e.problems().front().message();
  }
  FAIL("not refused");
  return {};
}

}  // namespace

TEST_CASE("a YAML file of NeMo 1 is a whole plan") {
  const arguments::ImportedPlan plan = imported(some_nemo());
  CHECK(field(plan, "cluster.devices") == 32);
  CHECK(field(plan, "model.ffn_hidden_size") == 3072);
  CHECK(field(plan, "model.activation") == "swiglu");
  CHECK(field(plan, "model.vocab_size") == 128256);  // of Meta-Llama-3-8B's config.json
  CHECK(field(plan, "model.pad_vocab_to") == 256);   // 128 x tensor
  CHECK(field(plan, "parallel.sequence_parallel") == true);
  CHECK(field(plan, "training.learning_rate") == 3e-4);
  CHECK(field(plan, "training.steps") == 1000);
  CHECK(field(plan, "stack") == json{{"name", "nemo"}, {"as_of", "2025-04"}});
  CHECK(plan.unknown.empty());
  CHECK(arguments::refusals(plan).empty());
  const Plan read = parse_plan(plan.document->dump(), "plan.json");
  CHECK(read.parallel.data == 16);
}

TEST_CASE("what a file of NeMo leaves out is NeMo's default, not the stack's") {
  // megatron_gpt_model.py: overlap_grad_sync False and grad_sync_dtype fp32 of Megatron-Core's optimizer, hidden_dropout 0.1;
  // apex's DistributedFusedAdam overlaps unless told otherwise.
  CHECK(field(some_nemo(), "parallel.overlap_grad_reduce") == false);
  CHECK(field(some_nemo(), "training.dtypes.gradient_reduce") == "fp32");
  CHECK(field(some_nemo(), "training.dropout.hidden") == 0.1);
  CHECK(field(some_nemo(), "parallel.zero_stage") == 1);
  const std::string apex = some_nemo("", "{name: distributed_fused_adam, lr: 1e-4, grad_sync_dtype: bf16}");
  CHECK(field(apex, "parallel.overlap_grad_reduce") == true);
  CHECK(field(apex, "training.dtypes.gradients") == "bf16");
  CHECK(field(some_nemo("", "{lr: 1e-4}"), "parallel.zero_stage") == 0);  // fused_adam
  CHECK(field(some_nemo("  fsdp: true\n  fsdp_sharding_strategy: hybrid\n"), "parallel.zero_stage") == 3);
  CHECK(field(some_nemo("  fsdp: true\n  fsdp_sharding_strategy: hybrid\n"), "parallel.zero_group") == 8);
}

TEST_CASE("fields that NeMo switches off are off in the plan") {
  // megatron_base_model.py, _validate_and_override_config.
  const std::string alone = some_nemo("  ub_tp_comm_overlap: true\n");
  CHECK(field(alone, "parallel.tensor_overlap") == true);
  arguments::PlanNeeds needs{"dgx-h100"};
  needs.set = {{"model.tensor_model_parallel_size", 1}};
  CHECK(field(imported(alone, needs), "parallel.tensor_overlap").is_null());
  CHECK(field(imported(alone, needs), "parallel.sequence_parallel") == false);
  CHECK(field(some_nemo("  virtual_pipeline_model_parallel_size: 1\n  pipeline_model_parallel_size: 2\n"), "parallel.schedule") == "1f1b");
  CHECK(field(some_nemo("  virtual_pipeline_model_parallel_size: 3\n  pipeline_model_parallel_size: 2\n"), "parallel.virtual_pipeline") == 3);
}

TEST_CASE("precisions of NeMo") {
  const auto precision = [](const std::string& said, const std::string& path) {
    arguments::PlanNeeds needs{"dgx-h100"};
    needs.set = {{"trainer.precision", json::parse(said)}};
    return field(imported(some_nemo(), needs), path);
  };
  CHECK(precision("\"bf16-mixed\"", "training.precision") == "bf16");
  CHECK(precision("16", "training.precision") == "fp16");
  CHECK(precision("\"32\"", "training.precision") == "fp32");
  CHECK(field(some_nemo("  fp8: true\n  fp8_hybrid: true\n"), "training.precision") == "fp8");
  CHECK(field(some_nemo("  fp8: true\n  fp8_hybrid: true\n"), "training.dtypes.weights") == "bf16");  // fp8_params is False
  CHECK(field(some_nemo("  fp8: true\n  fp8_hybrid: true\n  fp8_params: true\n"), "training.dtypes.weights") == "fp8");
  arguments::PlanNeeds wide{"dgx-h100"};
  wide.set = {{"model.megatron_amp_O2", false}};
  CHECK(field(imported(some_nemo(), wide), "training.dtypes.weights") == "fp32");
}

TEST_CASE("learning rates of NeMo are held at the end") {
  const std::string rate = some_nemo("", "{name: mcore_distributed_optim, lr: 3e-4, betas: [0.9, 0.95], sched: {name: CosineAnnealing, "
                                         "warmup_steps: 50, constant_steps: 200, min_lr: 3e-5}}");
  CHECK(field(rate, "training.learning_rate_decay") == "cosine");
  CHECK(field(rate, "training.warmup") == 50);
  CHECK(field(rate, "training.decay_over") == 800);
  CHECK(field(rate, "training.min_learning_rate") == 3e-5);
  CHECK(field(rate, "training.beta2") == 0.95);
  CHECK(field(some_nemo(), "training.learning_rate_decay") == "constant");  // no sched
}

TEST_CASE("what a plan cannot say of a file of NeMo is refused by name") {
  CHECK(has_feature(imported(some_nemo("  transformer_block_type: post_ln\n")), "norms in other places"));
  CHECK(has_feature(imported("defaults: [base_config]\n" + some_nemo()), "Hydra composes"));
  CHECK_FALSE(has_feature(imported("defaults: [_self_, {optional tp_overlap@model.ub_tp_comm_overlap_cfg: null}]\n" + some_nemo()), "Hydra"));
  CHECK(imported(some_nemo("  num_atention_heads: 12\n")).unknown.front() ==
        "model.num_atention_heads (the nearest is model.num_attention_heads)");
}

TEST_CASE("values that NeMo's own examples have are taken") {
  CHECK(arguments::refusals(imported(some_nemo("  drop_layers: []\n"))).empty());
  CHECK(has_feature(imported(some_nemo("  drop_layers: [0, 1]\n")), "layers that are left out"));
  CHECK(arguments::refusals(imported(some_nemo("  fsdp: false\n  fsdp_grad_reduce_dtype: 'fp32'\n"))).empty());
  CHECK(field(some_nemo("  fsdp: true\n  fsdp_grad_reduce_dtype: bf16\n"), "training.dtypes.gradient_reduce") == "bf16");
}

TEST_CASE("words that NeMo does not know are refused, not taken for the usual ones") {
  arguments::PlanNeeds needs{"dgx-h100"};
  needs.set = {{"trainer.precision", "fp16"}};  // Lightning's names are 16 and 16-mixed
  CHECK(has_feature(imported(some_nemo(), needs), "this type of precision"));
  needs.set = {{"model.normalization", "foo"}};
  CHECK(has_feature(imported(some_nemo(), needs), "norms of this type"));
}

TEST_CASE("all devices of a node are as many as the command says") {
  for (const std::string all : {"auto", "-1"}) {
    std::string text = some_nemo();
    text.replace(text.find("devices: 8"), 10, "devices: " + all);
    CHECK(refusal(text).find("give --devices N") != std::string::npos);
    arguments::PlanNeeds needs{"dgx-h100"};
    needs.devices = 16;
    CHECK(field(imported(text, needs), "cluster.devices") == 16);
  }
}

TEST_CASE("groups of fields that are open or no groups are refused") {
  for (const char* optim : {"'\?\?\?'", "{name: mcore_distributed_optim, lr: 3e-4, sched: '${oc.env:SCHED}'}", "8"})
    CHECK(refusal(some_nemo("", optim)).find("model.optim") != std::string::npos);
}

TEST_CASE("the length of sequences that the command gives is the one that is told") {
  arguments::PlanNeeds needs{"dgx-h100"};
  needs.sequence = 1024;
  const arguments::ImportedPlan plan = imported(some_nemo(), needs);
  CHECK(field(plan, "training.seq_length") == 1024);
  CHECK(std::none_of(plan.fields.begin(), plan.fields.end(), [](const auto& f) { return f.path == "training.seq_length"; }));
}

TEST_CASE("what a file of NeMo leaves to others must be given") {
  CHECK(refusal(some_nemo("  hidden_dropout: ${dropout}\n")).find("--set model.hidden_dropout=VALUE") != std::string::npos);
  arguments::PlanNeeds needs{"dgx-h100"};
  needs.set = {{"model.tokenizer.type", "a_tokenizer"}};
  CHECK(refusal(some_nemo(), needs).find("--set model.override_vocab_size=N") != std::string::npos);
  needs.set.emplace_back("model.override_vocab_size", 32000);
  CHECK(field(imported(some_nemo(), needs), "model.vocab_size") == 32000);
  needs.set.pop_back();
  needs.model = "llama3-8b";
  CHECK(field(imported(some_nemo(), needs), "model.preset") == "llama3-8b");
}
