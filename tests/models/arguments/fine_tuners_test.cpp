#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/arguments/stage_layers.hpp"
#include "models/base/error.hpp"
#include "models/base/output.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;
using tests::field;

namespace {

/// A file of LLaMA-Factory with adapters, and one of Axolotl; `more` is more lines.
std::string some_factory(const std::string& more = "", const std::string& method = "finetuning_type: lora\nlora_rank: 16\nlora_target: all\n") {
  return "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\n" + method +
         "cutoff_len: 4096\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nlearning_rate: 1.0e-4\n"
         "lr_scheduler_type: cosine\nwarmup_ratio: 0.1\nmax_steps: 500\nbf16: true\npacking: true\noutput_dir: out\ndataset: some\n" + more;
}

std::string some_axolotl(const std::string& more = "", const std::string& method = "adapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n") {
  return "base_model: Qwen/Qwen3-8B\n" + method +
         "sequence_len: 4096\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\noptimizer: adamw_torch_fused\nlr_scheduler: cosine\n"
         "learning_rate: 2e-4\nbf16: auto\ngradient_checkpointing: true\nsample_packing: true\nmax_steps: 500\noutput_dir: out\n" + more;
}

arguments::ImportedPlan imported(const std::string& framework, const std::string& text, const std::string& engine = "") {
  arguments::PlanNeeds needs{"dgx-h100", 8, "", 0, {2026, 3}};
  needs.configuration = engine;
  return arguments::import_arguments(text, "run.yaml", arguments::read_table(framework), needs);
}

/// Names of what is refused.
std::vector<std::string> refused(const std::string& framework, const std::string& text) {
  std::vector<std::string> out;
  for (const auto& feature : imported(framework, text).features)
    if (feature.refused) out.push_back(feature.name);
  return out;
}

/// A ds_config.json of ZeRO 3 that leaves its numbers to the Trainer; removed with this.
struct Engine {
  std::string path = (std::filesystem::temp_directory_path() / "tandem_fine_tuners_ds.json").string();
  explicit Engine(const std::string& precision = R"("bf16": {"enabled": "auto"})", const std::string& sizes = "") {
    write_text(path, R"({"train_batch_size": "auto", )" + precision + R"(, "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto")" + sizes + "}}");
  }
  ~Engine() { std::filesystem::remove(path); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
};

}  // namespace

TEST_CASE("a file of LLaMA-Factory with adapters is a plan of its preset") {
  const arguments::ImportedPlan plan = imported("llama-factory", some_factory());
  CHECK(field(plan, "stack") == "pytorch-ddp");
  CHECK(field(plan, "model.preset") == "qwen3-8b");
  CHECK(field(plan, "training.lora.rank") == 16);
  CHECK(field(plan, "training.lora.alpha") == 32);  // finetuning_args.py: twice the rank
  CHECK(field(plan, "training.lora.targets") == json({"q", "k", "v", "proj", "gate", "up", "fc2"}));
  CHECK(field(plan, "training.global_batch_size") == 2 * 4 * 8);
  CHECK(field(plan, "training.warmup") == 50);
  CHECK(field(plan, "training.recompute") == "full");  // on unless disable_gradient_checkpointing
  CHECK(field(plan, "training.beta2") == 0.999);       // training_args.py of transformers
  CHECK(plan.unknown.empty());
  CHECK(arguments::refusals(plan).empty());
  CHECK(parse_plan(plan.document->dump(), "plan.json").parallel.data == 8);
}

TEST_CASE("full fine-tuning of LLaMA-Factory keeps fp32 weights, with pure_bf16 nothing wider than bf16") {
  const arguments::ImportedPlan wide = imported("llama-factory", some_factory("", "finetuning_type: full\n"));
  CHECK(field(wide, "training.dtypes.weights") == "fp32");
  CHECK(field(wide, "training.lora.rank").is_null());
  const arguments::ImportedPlan pure = imported("llama-factory", some_factory("pure_bf16: true\n", "finetuning_type: full\n"));
  CHECK(field(pure, "training.dtypes.master") == "bf16");
  CHECK(field(pure, "training.dtypes.optimizer_state") == "bf16");
}

TEST_CASE("DeepSpeed's file or FSDP chooses the stack and shards a fine-tuning") {
  const Engine engine;
  const arguments::ImportedPlan plan = imported("llama-factory", some_factory("deepspeed: ds.json\n", "finetuning_type: full\n"), engine.path);
  CHECK(field(plan, "stack") == "deepspeed");
  CHECK(field(plan, "parallel.zero_stage") == 3);
  CHECK(field(plan, "parallel.bucket_bytes") == 4096 * 4096 * 2);  // "auto"
  CHECK_THROWS_AS(imported("llama-factory", some_factory("deepspeed: not/there.json\n")), ConfigError);
  const arguments::ImportedPlan shards = imported("axolotl", some_axolotl("fsdp_version: 2\nfsdp_config: {reshard_after_forward: false, offload_params: true}\n", ""));
  CHECK(field(shards, "stack") == "pytorch-fsdp");
  CHECK(field(shards, "parallel.zero_stage") == 2);
  CHECK(field(shards, "parallel.offload.parameters") == true);
}

TEST_CASE("what DeepSpeed's file of a fine-tuning gathers, keeps and scales is read or told, whichever of its names a field has") {
  const Engine engine(R"("bf16": {"enabled": true}, "fp16": {"enabled": "auto", "initial_scale_power": 12, "loss_scale_window": 500})",
                      R"(, "max_reuse_distance": 0, "stage3_prefetch_bucket_size": 0, "sub_group_size": 0, "gather_16bit_weights_on_model_save": true)");
  for (const char* framework : {"llama-factory", "axolotl"}) {
    const bool factory = framework[0] == 'l';
    const std::string text = factory ? some_factory("deepspeed: ds.json\n") : some_axolotl("deepspeed: ds.json\n");
    CAPTURE(framework);
    const arguments::ImportedPlan plan = imported(framework, text, engine.path);
    CHECK(field(plan, "parallel.reuse_distance") == 0);
    CHECK(field(plan, "training.loss_scale.initial").is_null());  // of fp16
    CHECK(plan.unknown.empty());
    CHECK(arguments::refusals(plan).empty());
    const auto tells = [](const auto& f) { return !f.refused && f.name.starts_with("sizes of what ZeRO 3"); };
    CHECK(std::any_of(plan.features.begin(), plan.features.end(), tells));
  }
  std::string half = some_factory("deepspeed: ds.json\n");
  half.replace(half.find("bf16: true"), 10, "fp16: true");
  const Engine scaled(R"("fp16": {"enabled": "auto", "initial_scale_power": 12, "loss_scale_window": 500})");
  CHECK(field(imported("llama-factory", half, scaled.path), "training.loss_scale.initial") == 4096);
  CHECK(field(imported("llama-factory", half, scaled.path), "training.loss_scale.window") == 500);
}

TEST_CASE("a file of Axolotl with adapters is a plan of its preset") {
  const arguments::ImportedPlan plan = imported("axolotl", some_axolotl("context_parallel_size: 2\ntensor_parallel_size: 2\n"));
  CHECK(field(plan, "model.preset") == "qwen3-8b");
  CHECK(field(plan, "training.lora.alpha") == 16);
  CHECK(field(plan, "training.precision") == "bf16");  // auto: Ampere or newer
  CHECK(field(plan, "training.documents") == "separate");
  CHECK(field(plan, "parallel.context_mode") == "all_gather");             // varlen_llama3, with packed samples
  CHECK(field(plan, "training.global_batch_size") == 2 * 4 * (8 / 2 / 2));
  CHECK(plan.unknown.empty());
  CHECK(arguments::refusals(plan).empty());
}

TEST_CASE("activations that Axolotl sends to the host are the plan's, on disks they are refused") {
  const auto with = [](const std::string& checkpointing) {
    std::string text = some_axolotl();
    const std::string usual = "gradient_checkpointing: true\n";
    return text.replace(text.find(usual), usual.size(), checkpointing);
  };
  for (const char* said : {"gradient_checkpointing: offload\n", "gradient_checkpointing: true\nactivation_offloading: true\n"}) {
    const arguments::ImportedPlan plan = imported("axolotl", with(said));
    CHECK(field(plan, "training.recompute") == "full");
    CHECK(field(plan, "parallel.offload.activations") == json{"all"});
    CHECK(arguments::refusals(plan).empty());
  }
  CHECK(field(imported("axolotl", some_axolotl()), "parallel.offload.activations").is_null());
  CHECK(refused("axolotl", with("gradient_checkpointing: offload_disk\n")).front().find("on disks") != std::string::npos);
}

TEST_CASE("named matrices of adapters are a plan's, each by itself, others are refused") {
  const std::string some = "adapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_modules: ";
  CHECK(field(imported("axolotl", some_axolotl("", some + "[q_proj, v_proj]\n")), "training.lora.targets") == json({"q", "v"}));
  CHECK(field(imported("axolotl", some_axolotl("", some + "[down_proj, up_proj, gate_proj]\n")), "training.lora.targets") == json({"fc2", "up", "gate"}));
  CHECK(refused("axolotl", some_axolotl("", some + "[embed_tokens]\n")).size() == 1);
  // The expressions of its examples.
  const arguments::ImportedPlan all = imported("axolotl", some_axolotl("", some + "'model.language_model.layers.[\\d]+.(mlp|cross_attn|self_attn).(up|down|gate|q|k|v|o)_proj'\n"));
  CHECK(field(all, "training.lora.targets") == json({"q", "k", "v", "proj", "gate", "up", "fc2"}));
  CHECK(arguments::refusals(all).empty());
  CHECK(refused("axolotl", some_axolotl("", some + "'model.visual.layers.[\\d]+.(mlp|self_attn).(up|down|gate|q|k|v|o)_proj'\n")).size() == 1);
  CHECK(field(imported("llama-factory", some_factory("", "finetuning_type: lora\nlora_target: q_proj,o_proj\n")), "training.lora.targets") ==
        json({"q", "proj"}));
}

TEST_CASE("quantized weights, preferences and other methods of fine-tuners are refused by name") {
  const auto starts = [](const std::vector<std::string>& names, const std::string& what) {
    return names.size() == 1 && names.front().find(what) != std::string::npos;
  };
  const std::string qlora = "adapter: qlora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n";
  for (const char* more : {"quantization_bit: 8\n", "quantization_bit: 4\nquantization_type: fp4\n", "quantization_bit: 4\nquantization_method: hqq\n"})
    CHECK(starts(refused("llama-factory", some_factory(more)), "quantized otherwise than in nf4"));
  CHECK(starts(refused("axolotl", some_axolotl("load_in_8bit: true\n")), "quantized otherwise than in nf4"));
  CHECK(starts(refused("axolotl", some_axolotl("load_in_4bit: true\nbnb_config_kwargs: {bnb_4bit_quant_type: fp4}\n", qlora)), "quantized otherwise than in nf4"));
  CHECK(starts(refused("llama-factory", some_factory("", "finetuning_type: freeze\n")), "other weights"));
  CHECK(starts(refused("axolotl", some_axolotl("rl: dpo\n")), "preferences"));
  CHECK(starts(refused("axolotl", some_axolotl("an_option_of_mine: 1\n")), "not known here"));
}

/// A full fine-tuning by Axolotl with this optimizer.
std::string axolotl_with(const std::string& optimizer) {
  std::string text = some_axolotl("", "");
  const std::string usual = "adamw_torch_fused";
  return text.replace(text.find(usual), usual.size(), optimizer);
}

TEST_CASE("8-bit AdamW of fine-tuners keeps moments as codes, and the embedding's wider ones are told") {
  for (const std::string name : {"adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit", "adamw_torch_8bit"}) {
    CAPTURE(name);
    const std::string said = "optim: " + name + "\n";
    for (const arguments::ImportedPlan& plan : {imported("llama-factory", some_factory(said, "finetuning_type: full\n")),
                                                imported("axolotl", axolotl_with(name))}) {
      CHECK(field(plan, "training.dtypes.optimizer_state") == "dynamic8");
      CHECK(arguments::refusals(plan).empty());
      const auto tells = [](const auto& f) { return !f.refused && f.name.starts_with("fp32 moments of the embedding"); };
      CHECK(std::any_of(plan.features.begin(), plan.features.end(), tells) == (name != "adamw_torch_8bit"));
    }
    CHECK(field(imported("llama-factory", some_factory(said)), "training.dtypes.optimizer_state") == "dynamic8");
  }
  CHECK(refused("axolotl", axolotl_with("adamw_torch_4bit")) == std::vector<std::string>{"this optimizer"});
}

TEST_CASE("QLoRA of fine-tuners is a plan's quantized base, with double quantization unless LLaMA-Factory's file turns it off") {
  const arguments::ImportedPlan factory = imported("llama-factory", some_factory("quantization_bit: 4\n"));
  CHECK(field(factory, "training.lora.base") == "nf4");
  CHECK(field(factory, "training.lora.double_quantization") == true);  // model_args.py: default
  CHECK(arguments::refusals(factory).empty());
  CHECK(parse_plan(factory.document->dump(), "plan.json").training.lora.base_type() == DType::nf4_double);
  const arguments::ImportedPlan single = imported("llama-factory", some_factory("quantization_bit: 4\ndouble_quantization: false\n"));
  CHECK(field(single, "training.lora.double_quantization") == false);
  CHECK(field(imported("llama-factory", some_factory()), "training.lora.base").is_null());
  const arguments::ImportedPlan axolotl =
      imported("axolotl", some_axolotl("load_in_4bit: true\n", "adapter: qlora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n"));
  CHECK(field(axolotl, "training.lora.base") == "nf4");
  CHECK(field(axolotl, "training.lora.double_quantization") == true);  // loaders/model.py: BitsAndBytesConfig
  CHECK(arguments::refusals(axolotl).empty());
  const std::string single_scales = "load_in_4bit: true\nbnb_config_kwargs: {bnb_4bit_use_double_quant: false}\n";
  const arguments::ImportedPlan less =
      imported("axolotl", some_axolotl(single_scales, "adapter: qlora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n"));
  CHECK(field(less, "training.lora.double_quantization") == false);
  CHECK(arguments::refusals(less).empty());
}

TEST_CASE("a model without a preset of its name must be given") {
  CHECK_THROWS_AS(imported("axolotl", "base_model: someone/something\nsequence_len: 64\nmicro_batch_size: 1\n"), ConfigError);
}

TEST_CASE("words are parts of a text between commas and spaces") {
  CHECK(arguments::stage_call("words", {"full_shard auto_wrap,offload"}) == json({"full_shard", "auto_wrap", "offload"}));
  CHECK(arguments::stage_call("words", {json({"a b"})}) == json({"a b"}));
  CHECK(arguments::stage_call("words", {json()}) == json::array());
  CHECK(arguments::stage_call("distinct", {json({"b", "a", "b"})}) == json({"b", "a"}));
}

// linkedin/Liger-Kernel ead96b61: src/liger_kernel/ops/fused_linear_cross_entropy.py, and the example in its comments.
TEST_CASE("Liger's loss has chunks of a power of two of tokens, about as many as a vocabulary has widths") {
  const auto chunks = [](const json& tokens, const json& vocabulary, const json& hidden) {
    return arguments::stage_call("liger_chunks", {tokens, vocabulary, hidden});
  };
  CHECK(chunks(4 * 4096, 32000, 4096) == 8);
  CHECK(chunks(8192, 128256, 4096) == 32);
  CHECK(chunks(8192, 4096, 4096) == 1);
  CHECK(chunks(1000, 32000, 4096).is_null());  // chunks of 128 tokens, and one of 104
  CHECK(chunks(8192, nullptr, 4096).is_null());
  CHECK(chunks(0, 32000, 4096).is_null());
}

TEST_CASE("Liger's fused loss of a fine-tuner is a loss in chunks, or told where the last chunk is shorter") {
  const auto told = [](const arguments::ImportedPlan& plan) {
    return std::ranges::count_if(plan.features, [](const auto& f) { return f.name == "a loss that never holds all logits"; }) > 0;
  };
  const std::string fused = "liger_fused_linear_cross_entropy: true\n";
  const arguments::ImportedPlan axolotl = imported("axolotl", some_axolotl(fused));
  CHECK(field(axolotl, "training.loss_chunks") == 32);  // 38 widths of 4096 in 151,936 words: chunks of 256 of 8192 tokens
  CHECK_FALSE(told(axolotl));
  CHECK(field(imported("axolotl", some_axolotl()), "training.loss_chunks").is_null());
  CHECK(field(imported("axolotl", some_axolotl(fused + "context_parallel_size: 2\n")), "training.loss_chunks") == 32);
  std::string odd = some_axolotl(fused);
  odd.replace(odd.find("4096"), 4, "4000");
  CHECK(field(imported("axolotl", odd), "training.loss_chunks").is_null());
  CHECK(told(imported("axolotl", odd)));
  CHECK(field(imported("llama-factory", some_factory("enable_liger_kernel: true\n")), "training.loss_chunks") == 32);
  CHECK(field(imported("llama-factory", some_factory()), "training.loss_chunks").is_null());
}

// transformers/integrations/deepspeed.py, trainer_config_process: values of the file must be the Trainer's.
TEST_CASE("an optimizer and a schedule of DeepSpeed's file count beside a fine-tuning") {
  const auto more = [](const std::string& optimizer) {
    return R"("bf16": {"enabled": "auto"}, "gradient_clipping": 1.0, "optimizer": {"type": ")" + optimizer +
           R"(", "params": {"lr": 1e-4}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 50}})";
  };
  for (const char* framework : {"llama-factory", "axolotl"}) {
    const bool factory = std::string(framework) == "llama-factory";
    const std::string text = factory ? some_factory("deepspeed: ds.json\n") : some_axolotl("deepspeed: ds.json\n");
    CAPTURE(framework);
    {
      const Engine engine(more("AdamW"));
      const arguments::ImportedPlan plan = imported(framework, text, engine.path);
      CHECK(field(plan, "training.learning_rate_decay") == "constant");
      CHECK(arguments::refusals(plan).empty());
    }
    const Engine engine(more("OneBitAdam"));
    CHECK(arguments::refusals(imported(framework, text, engine.path)).size() == 1);
  }
}
