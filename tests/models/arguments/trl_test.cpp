#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/base/error.hpp"
#include "models/base/output.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;
using tests::field;

namespace {

/// A file of `trl sft --config`; `more` is more lines.
std::string some_file(const std::string& more = "") {
  return "model_name_or_path: Qwen/Qwen3-8B\ndataset_name: someone/some\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n"
         "learning_rate: 1.0e-4\nlr_scheduler_type: cosine\nwarmup_ratio: 0.1\nmax_steps: 500\nmax_length: 4096\noutput_dir: out\n" + more;
}

const std::string kAdapters = "use_peft: true\nlora_r: 32\nlora_alpha: 16\nlora_target_modules: all-linear\n";

arguments::ImportedPlan imported(const std::string& text, const std::string& given = "", std::int64_t devices = 8,
                                 const std::string& framework = "trl") {
  arguments::PlanNeeds needs{"dgx-h100", devices, "", 0, {2026, 3}};
  needs.configuration = given;
  return arguments::import_arguments(text, "sft.yaml", arguments::read_table(framework), needs);
}

std::vector<std::string> refused(const std::string& text, const std::string& framework = "trl") {
  std::vector<std::string> out;
  for (const auto& feature : imported(text, "", 8, framework).features)
    if (feature.refused) out.push_back(feature.name);
  return out;
}

bool tells(const arguments::ImportedPlan& plan, const std::string& part) {
  return std::any_of(plan.features.begin(), plan.features.end(),
                     [&](const auto& f) { return !f.refused && f.name.find(part) != std::string::npos; });
}

/// A file beside the run's; removed with this.
struct Beside {
  std::string path;
  Beside(const std::string& name, const std::string& text) : path((std::filesystem::temp_directory_path() / name).string()) {
    write_text(path, text);
  }
  ~Beside() { std::filesystem::remove(path); }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
};

}  // namespace

TEST_CASE("a file of TRL is told from those of other trainers by its fields") {
  const arguments::Table trl = arguments::read_table("trl"), factory = arguments::read_table("llama-factory");
  const arguments::Table trainer = arguments::read_table("transformers");
  const json file = {{"model_name_or_path", "a/b"}, {"dataset_name", "c/d"}, {"max_length", 2048}};
  CHECK(trl.recognises(file));
  CHECK_FALSE(factory.recognises(file));
  CHECK_FALSE(trainer.recognises(file));
  const json of_factory = {{"model_name_or_path", "a/b"}, {"stage", "sft"}, {"finetuning_type", "lora"}, {"cutoff_len", 2048}};
  CHECK(factory.recognises(of_factory));
  CHECK_FALSE(trl.recognises(of_factory));
  const json of_script = {{"model_name_or_path", "a/b"}, {"do_train", true}, {"block_size", 1024}};
  CHECK(trainer.recognises(of_script));
  CHECK_FALSE(trl.recognises(of_script));
  CHECK_FALSE(trl.recognises({{"architectures", {"LlamaForCausalLM"}}, {"max_length", 20}, {"model_type", "llama"}}));
}

// trainer/sft_config.py and base_config.py: bf16 and gradient_checkpointing are on, max_length is 1024; model_config.py: dtype float32.
TEST_CASE("TRL's defaults are not the Trainer's") {
  const arguments::ImportedPlan plan = imported("model_name_or_path: Qwen/Qwen3-0.6B\ndataset_name: a/b\n");
  CHECK(field(plan, "stack") == "pytorch-ddp");
  CHECK(field(plan, "training.seq_length") == 1024);
  CHECK(field(plan, "training.micro_batch_size") == 8);
  CHECK(field(plan, "training.global_batch_size") == 64);
  CHECK(field(plan, "training.precision") == "bf16");
  CHECK(field(plan, "training.dtypes.weights") == "fp32");
  CHECK(field(plan, "training.recompute") == "full");
  CHECK(field(plan, "training.recompute_early_stop") == true);  // transformers 5: use_reentrant False
  CHECK(field(plan, "training.learning_rate") == 2e-5);
  CHECK(tells(plan, "which trainer reads the file"));
  CHECK(arguments::refusals(plan).empty());
  CHECK(parse_plan(plan.document->dump(), "plan.json").parallel.data == 8);

  const arguments::ImportedPlan plain = imported("do_train: true\nblock_size: 2048\nmodel_name_or_path: Qwen/Qwen3-0.6B\n", "", 8, "transformers");
  CHECK(field(plain, "training.precision") == "fp32");
  CHECK(field(plain, "training.recompute") == "none");
  CHECK(field(plain, "training.seq_length") == 2048);
}

TEST_CASE("a Trainer's file that says no length needs one") {
  const std::string text = "do_train: true\nmodel_name_or_path: Qwen/Qwen3-0.6B\n";
  CHECK_THROWS_AS(imported(text, "", 8, "transformers"), ConfigError);
  arguments::PlanNeeds needs{"dgx-h100", 8, "", 4096, {2026, 3}};
  CHECK(field(arguments::import_arguments(text, "args.yaml", arguments::read_table("transformers"), needs), "training.seq_length") == 4096);
}

TEST_CASE("adapters of TRL are PEFT's") {
  const arguments::ImportedPlan plan = imported(some_file(kAdapters + "packing: true\n"));
  CHECK(field(plan, "training.lora.rank") == 32);
  CHECK(field(plan, "training.lora.alpha") == 16);
  CHECK(field(plan, "training.lora.dropout") == 0.05);
  CHECK(field(plan, "training.lora.targets") == json({"q", "k", "v", "proj", "gate", "up", "fc2"}));
  CHECK(field(plan, "training.documents") == "separate");
  CHECK(field(plan, "training.warmup") == 50);
  CHECK(field(plan, "training.dtypes.weights") == "fp32");  // dtype
  CHECK(field(imported(some_file(kAdapters + "dtype: bfloat16\n")), "training.dtypes.weights").is_null());
  CHECK(field(imported(some_file("use_peft: true\nlora_target_modules: [q_proj, o_proj]\n")), "training.lora.targets") == json({"q", "proj"}));
  const arguments::ImportedPlan usual = imported(some_file("use_peft: true\n"));
  CHECK(field(usual, "training.lora.targets") == json({"q", "v"}));  // peft/utils/constants.py
  CHECK(tells(usual, "matrices that PEFT has for the model"));
  CHECK(field(imported(some_file("packing: true\npacking_strategy: wrapped\n")), "training.documents").is_null());
  const arguments::ImportedPlan narrow = imported(some_file(kAdapters + "load_in_4bit: true\nuse_bnb_nested_quant: true\n"));
  CHECK(field(narrow, "training.lora.base") == "nf4");
  CHECK(field(narrow, "training.lora.double_quantization") == true);
}

TEST_CASE("weights that TRL loads in 16 bits have no masters without a sharding engine") {
  const arguments::ImportedPlan plan = imported(some_file("torch_dtype: bfloat16\nmax_seq_length: 512\n"));
  for (const char* part : {"gradients", "gradient_reduce", "master", "optimizer_state"}) CHECK(field(plan, std::string("training.dtypes.") + part) == "bf16");
}

// transformers 5.24.0: trainer.py create_optimizer and trainer_optimizer.py; bitsandbytes and torchao have blocks of 256.
TEST_CASE("8-bit AdamW of the Trainer keeps moments as codes, and the embedding's wider ones are told") {
  for (const std::string& adapters : {std::string(), kAdapters})
    for (const std::string name : {"adamw_bnb_8bit", "paged_adamw_8bit", "adamw_torch_8bit"}) {
      CAPTURE(name);
      const arguments::ImportedPlan plan = imported(some_file(adapters + "optim: " + name + "\n"));
      CHECK(field(plan, "training.dtypes.optimizer_state") == "dynamic8");
      CHECK(arguments::refusals(plan).empty());
      CHECK(tells(plan, "fp32 moments of the embedding") == (adapters.empty() && name != "adamw_torch_8bit"));
    }
}

// trl/accelerate_configs: files of these names stand in the package.
TEST_CASE("accelerate_config names a file of Accelerate, or one of TRL's own") {
  const arguments::ImportedPlan shards = imported(some_file("accelerate_config: fsdp2\n"), "", 0);
  CHECK(field(shards, "stack") == "pytorch-fsdp");
  CHECK(field(shards, "cluster.devices") == 8);
  CHECK(field(shards, "parallel.zero_stage") == 3);
  CHECK(field(shards, "training.dtypes.weights").is_null());
  const arguments::ImportedPlan engine = imported(some_file("accelerate_config: zero2\nnum_processes: 16\n"), "", 0);
  CHECK(field(engine, "parallel.zero_stage") == 2);
  CHECK(field(engine, "cluster.devices") == 16);
  CHECK(field(engine, "training.global_batch_size") == 2 * 4 * 16);
  CHECK_THROWS_AS(imported(some_file("accelerate_config: zero4\n")), ConfigError);

  const Beside file("tandem_trl_accelerate.yaml", "distributed_type: FSDP\nnum_processes: 4\nmixed_precision: bf16\n"
                                                  "fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false, fsdp_offload_params: true}\n");
  const arguments::ImportedPlan given = imported(some_file(), file.path, 0);
  CHECK(field(given, "cluster.devices") == 4);
  CHECK(field(given, "parallel.zero_stage") == 2);
  CHECK(field(given, "parallel.offload.optimizer") == true);
  CHECK(field(imported(some_file("accelerate_config: " + file.path + "\n"), "", 0), "parallel.zero_stage") == 2);
}

// transformers/integrations/deepspeed.py: of AdamW and a scheduler in the file, values are the Trainer's.
TEST_CASE("deepspeed names a file of DeepSpeed, whose optimizer and schedule count") {
  const auto text = [](const std::string& optimizer, const std::string& sizes = "") {
    return R"({"train_batch_size": "auto", "gradient_clipping": 1.0, "bf16": {"enabled": "auto"}, "optimizer": {"type": ")" + optimizer +
           R"(", "params": {"lr": "auto"}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}, "zero_optimization": {"stage": 3)" + sizes + "}}";
  };
  const Beside file("tandem_trl_ds.json", text("AdamW"));
  for (const arguments::ImportedPlan& plan : {imported(some_file(), file.path), imported(some_file("deepspeed: " + file.path + "\n"))}) {
    CHECK(field(plan, "parallel.zero_stage") == 3);
    CHECK(field(plan, "training.learning_rate_decay") == "constant");
    CHECK(field(plan, "training.dtypes.weights").is_null());
    CHECK(arguments::refusals(plan).empty());
  }
  // sft_trainer.py: ZeRO 3 beside adapters needs reentrant checkpoints, which repeat a layer whole
  CHECK(field(imported(some_file(kAdapters), file.path), "training.recompute_early_stop") == false);
  const Beside other("tandem_trl_ds_other.json", text("OneBitAdam"));
  CHECK(arguments::refusals(imported(some_file(), other.path)).size() == 1);
  const Beside strange("tandem_trl_strange.json", R"({"a": 1})");
  CHECK_THROWS_AS(imported(some_file(), strange.path), ConfigError);
}

TEST_CASE("FSDP in the Trainer's own words") {
  const auto stage = [](const std::string& more) { return field(imported(some_file(more)), "parallel.zero_stage"); };
  CHECK(stage("fsdp: full_shard auto_wrap\n") == 3);
  CHECK(stage("fsdp: [shard_grad_op]\n") == 2);
  CHECK(stage("fsdp: true\nfsdp_config: {reshard_after_forward: false}\n") == 2);
  CHECK(stage("fsdp: no_shard\n") == 0);
  CHECK(field(imported(some_file("fsdp: full_shard offload\n")), "parallel.offload.parameters") == true);
  const std::string inside = "fsdp: full_shard\ngradient_checkpointing: false\nfsdp_config: {fsdp_activation_checkpointing: true}\n";
  CHECK(field(imported(some_file(inside)), "training.recompute") == "full");
  CHECK(refused(some_file("fsdp: full_shard some_word\n")).size() == 1);
}

TEST_CASE("what a plan cannot say of TRL's is refused by name") {
  const auto starts = [](const std::vector<std::string>& names, const std::string& part) {
    return names.size() == 1 && names.front().find(part) != std::string::npos;
  };
  CHECK(refused(some_file()).empty());
  CHECK(starts(refused(some_file("optim: adafactor\n")), "this optimizer"));
  CHECK(starts(refused(some_file("optim: adamw_torch_4bit\n")), "this optimizer"));
  CHECK(starts(refused(some_file(kAdapters + "load_in_8bit: true\n")), "quantized otherwise than in nf4"));
  CHECK(starts(refused(some_file(kAdapters + "use_dora: true\n")), "DoRA"));
  CHECK(starts(refused(some_file("use_peft: true\nlora_target_modules: [embed_tokens]\n")), "adapters of other matrices"));
  CHECK(starts(refused(some_file("num_generations: 8\n")), "preferences or rewards"));
  CHECK(starts(refused(some_file("gradient_checkpointing_kwargs: {selective: true}\n")), "keeps products"));
  CHECK(starts(refused(some_file("a_field_of_mine: 1\n")), "not known here"));
  CHECK(tells(imported(some_file("use_liger_kernel: true\n")), "fused kernels"));
  const arguments::ImportedPlan away = imported(some_file("activation_offloading: true\n"));
  CHECK(field(away, "parallel.offload.activations") == json({"all"}));
  CHECK(arguments::refusals(away).empty());
  CHECK(tells(imported(some_file()), "a loss in tiles"));
  const arguments::ImportedPlan liger = imported(some_file("use_liger_kernel: true\n"));
  CHECK(field(liger, "training.loss_chunks") == 32);  // as in Axolotl's test
  CHECK_FALSE(tells(liger, "a loss in tiles"));
}
