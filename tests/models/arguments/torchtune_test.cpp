#include <algorithm>
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

/// A recipe's file; `more` is more lines.
std::string some_recipe(const std::string& model, const std::string& more = "") {
  return "output_dir: out\ntokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n  max_seq_len: 4096\n"
         "dataset:\n  _component_: torchtune.datasets.alpaca_dataset\n  packed: True\nseed: 5\nshuffle: True\nbatch_size_val: ${batch_size}\n"
         "model:\n" + model + "checkpointer:\n  _component_: torchtune.training.FullModelHFCheckpointer\n  output_dir: ${output_dir}\n"
         "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 2e-5\n  fused: True\n"
         "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\nbatch_size: 2\ngradient_accumulation_steps: 4\n"
         "epochs: 1\nmax_steps_per_epoch: 100\nclip_grad_norm: null\nenable_activation_checkpointing: True\ndtype: bf16\ndevice: cuda\n"
         "metric_logger:\n  log_dir: ${output_dir}/logs\n" + more;
}

const std::string kWhole = "  _component_: torchtune.models.llama3.llama3_8b\n";
const std::string kAdapters = "  _component_: torchtune.models.llama3_1.lora_llama3_1_8b\n  lora_attn_modules: ['q_proj', 'output_proj']\n"
                              "  apply_lora_to_mlp: True\n  lora_rank: 16\n  lora_alpha: 32\n  lora_dropout: 0.0\n";

arguments::ImportedPlan imported(const std::string& text, std::int64_t devices = 8) {
  return arguments::import_arguments(text, "8B.yaml", arguments::read_table("torchtune"), {"dgx-h100", devices, "", 0, {2026, 3}});
}

std::vector<std::string> refused(const std::string& text) {
  std::vector<std::string> out;
  for (const auto& feature : imported(text).features)
    if (feature.refused) out.push_back(feature.name);
  return out;
}

}  // namespace

TEST_CASE("a recipe of torchtune is recognised, and no other framework takes it for its own") {
  const json file = {{"checkpointer", json::object()}, {"metric_logger", json::object()}, {"lr_scheduler", json::object()}, {"batch_size", 2}};
  for (const std::string& framework : arguments::known_frameworks()) {
    CAPTURE(framework);
    CHECK(arguments::read_table(framework).recognises(file) == (framework == "torchtune"));
  }
}

// recipes/full_finetune_distributed.py: the model is made in dtype and its shards, gradients and states have it, too.
TEST_CASE("a full recipe of torchtune shards a model whose states have its type") {
  const arguments::ImportedPlan plan = imported(some_recipe(kWhole));
  CHECK(field(plan, "stack") == "pytorch-fsdp");
  CHECK(field(plan, "model.preset") == "llama3-8b");
  CHECK(field(plan, "parallel.zero_stage") == 3);
  for (const char* part : {"gradients", "gradient_reduce", "master", "optimizer_state"}) CHECK(field(plan, std::string("training.dtypes.") + part) == "bf16");
  CHECK(field(plan, "training.seq_length") == 4096);
  CHECK(field(plan, "training.global_batch_size") == 2 * 4 * 8);
  CHECK(field(plan, "training.recompute") == "full");
  CHECK(field(plan, "training.documents") == "separate");
  CHECK(field(plan, "training.weight_decay") == 0.01);  // torch.optim.AdamW
  CHECK(field(plan, "training.clip_grad") == 0);
  CHECK(field(plan, "training.learning_rate_decay") == "constant");
  CHECK(field(plan, "training.steps") == 100);
  CHECK(plan.unknown.empty());
  CHECK(plan.unsaid.empty());
  CHECK(arguments::refusals(plan).empty());
  CHECK(parse_plan(plan.document->dump(), "plan.json").parallel.data == 8);
  CHECK(field(imported(some_recipe(kWhole), 1), "parallel.zero_stage") == 0);
}

TEST_CASE("dimensions of torchtune's devices are a plan's") {
  const arguments::ImportedPlan plan = imported(some_recipe(kWhole, "tensor_parallel_dim: 2\ncontext_parallel_dim: 2\nfsdp_reshard_after_forward: False\n"
                                                                    "fsdp_cpu_offload: True\n"), 16);
  CHECK(field(plan, "parallel.tensor") == 2);
  CHECK(field(plan, "parallel.context") == 2);
  CHECK(field(plan, "parallel.zero_stage") == 2);
  CHECK(field(plan, "parallel.offload.optimizer") == true);
  CHECK(field(plan, "training.global_batch_size") == 2 * 4 * 4);
  CHECK(field(imported(some_recipe(kWhole, "data_parallel_replicate_dim: 2\n")), "parallel.zero_group") == 4);
  CHECK(field(imported(some_recipe(kWhole, "compile: True\n")), "training.fusion") == "compiled");
}

// torchtune/models/llama3_1/_model_builders.py: lora_* and qlora_*, the last with quantize_base; rotary positions are scaled by 8
TEST_CASE("adapters of torchtune are a plan's, beside a base in 4 bits by the builder's name") {
  const arguments::ImportedPlan plan = imported(some_recipe(kAdapters));
  CHECK(field(plan, "training.lora.rank") == 16);
  CHECK(field(plan, "training.lora.alpha") == 32);
  CHECK(field(plan, "training.lora.targets") == json({"q", "proj", "gate", "up", "fc2"}));
  CHECK(field(plan, "training.lora.base").is_null());
  CHECK(field(plan, "training.dtypes.master").is_null());
  CHECK(field(plan, "model.preset") == "llama3-8b");
  CHECK(field(plan, "model.rope_scaling.type") == "llama3");
  CHECK(arguments::refusals(plan).empty());
  std::string narrow = kAdapters;
  narrow.replace(narrow.find("lora_llama3"), 4, "qlora");
  CHECK(field(imported(some_recipe(narrow), 1), "training.lora.base") == "nf4");
  CHECK(field(imported(some_recipe(kAdapters + "  quantize_base: True\n"), 1), "training.lora.base") == "nf4");
}

/// A recipe with this class of optimizer.
std::string with_optimizer(std::string text, const std::string& name) { return text.replace(text.find("torch.optim.AdamW"), 17, name); }

TEST_CASE("8-bit AdamW and offloaded activations of torchtune are a plan's") {
  for (const char* kind : {"bitsandbytes.optim.PagedAdamW8bit", "torchao.optim.AdamW8bit"})
    for (const std::string& model : {kWhole, kAdapters}) {
      const arguments::ImportedPlan plan = imported(with_optimizer(some_recipe(model), kind));
      CHECK(field(plan, "training.dtypes.optimizer_state") == "dynamic8");
      CHECK(arguments::refusals(plan).empty());
    }
  const arguments::ImportedPlan plan = imported(some_recipe(kWhole, "enable_activation_offloading: True\n"));
  CHECK(field(plan, "parallel.offload.activations") == json({"all"}));
  CHECK(arguments::refusals(plan).empty());
  CHECK(field(imported(some_recipe(kWhole)), "parallel.offload.activations").is_null());
}

TEST_CASE("what a plan cannot say of a recipe is refused by name") {
  const auto starts = [](const std::vector<std::string>& names, const std::string& part) {
    return names.size() == 1 && names.front().find(part) != std::string::npos;
  };
  CHECK(refused(some_recipe(kWhole)).empty());
  CHECK(starts(refused(some_recipe(kWhole, "optimizer_in_bwd: True\n")), "updates inside the backward pass"));
  CHECK(starts(refused(with_optimizer(some_recipe(kWhole), "torchao.prototype.low_bit_optim.AdamW4bit")), "this optimizer"));
  CHECK(starts(refused(with_optimizer(some_recipe(kWhole), "torch.optim.SGD")), "this optimizer"));
  CHECK(starts(refused(some_recipe(kAdapters + "  apply_lora_to_output: True\n")), "an adapter of the head"));
  CHECK(starts(refused(some_recipe(kAdapters + "  use_dora: True\n")), "DoRA"));
  CHECK(starts(refused(some_recipe(kWhole, "ac_mode: selective\nac_option: 2\n")), "recomputation of some layers"));
  CHECK(starts(refused(some_recipe(kWhole, "ref_checkpointer:\n  _component_: torchtune.training.FullModelHFCheckpointer\n")), "a second model"));
  CHECK(starts(refused(some_recipe(kWhole, "a_field_of_mine: 1\n")), "not known here"));
  CHECK_THROWS_AS(imported(some_recipe("  _component_: torchtune.models.phi4.phi4_14b\n")), ConfigError);  // no preset: --model
}
