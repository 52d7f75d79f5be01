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

namespace {

const std::string kModel = "\"num-layers\": 24, \"hidden-size\": 1024, \"num-attention-heads\": 16, \"seq-length\": 2048, \"max-position-embeddings\": 2048, "
                           "\"vocab_size\": 50000, \"pos-emb\": \"rotary\", \"rotary-pct\": 0.25, \"no-weight-tying\": true";
const std::string kTraining = "\"pipe-parallel-size\": 2, \"model-parallel-size\": 2, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 8, "
                              "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 12}, \"zero_optimization\": {\"stage\": 1, \"reduce_bucket_size\": 1000000}, "
                              "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 3.0e-4, \"betas\": [0.9, 0.95]}}, \"min_lr\": 3.0e-5, "
                              "\"train-iters\": 1000, \"lr-decay-iters\": 800, \"warmup\": 0.05, \"lr-decay-style\": \"cosine\", \"weight-decay\": 0.01";

/// A file of GPT-NeoX with more fields.
std::string some(const std::string& more = "") { return "{" + kModel + ", " + kTraining + (more.empty() ? "" : ", " + more) + ",}"; }

arguments::ImportedPlan imported(const std::string& text, const std::string& second = "") {
  arguments::PlanNeeds needs{"dgx-a100-80gb", 16, "", 0, {2024, 3}};
  needs.configuration = second;
  return arguments::import_arguments(text, "run.yml", arguments::read_table("gpt-neox"), needs);
}

using tests::field;

}  // namespace

TEST_CASE("a file of GPT-NeoX, with dashes, is a whole plan of stack megatron-deepspeed") {
  const arguments::ImportedPlan plan = imported(some());
  CHECK(field(plan, "stack") == "megatron-deepspeed");
  CHECK(field(plan, "model.ffn_hidden_size") == 4096);
  CHECK(field(plan, "model.rotary_fraction") == 0.25);
  CHECK(field(plan, "model.pad_vocab_to") == 256);  // make_vocab_size_divisible_by 128 times model ranks
  CHECK(field(plan, "model.tie_embeddings") == false);
  CHECK(field(plan, "training.global_batch_size") == 4 * 8 * 4);  // 16 devices are 4 data ranks
  CHECK(field(plan, "training.loss_scale.initial") == 4096);
  CHECK(field(plan, "training.learning_rate") == 3e-4);
  CHECK(field(plan, "training.warmup") == 40);  // training.py: warmup * lr_decay_iters
  CHECK(field(plan, "training.decay_over") == 800);
  CHECK(field(plan, "training.weight_decay") == 0.01);
  CHECK(field(plan, "training.flash_attention") == false);  // attention_config is global
  CHECK(field(plan, "parallel.zero_stage") == 1);
  CHECK(field(plan, "parallel.bucket_bytes") == 2'000'000);
  CHECK(plan.unknown.empty());
  CHECK(plan.unsaid.empty());
  CHECK(arguments::refusals(plan).empty());
  CHECK(parse_plan(plan.document->dump(), "plan.json").parallel.data == 4);
}

// megatron/tokenizer/tokenizer.py: GPT2BPETokenizer is the default, CharLevelTokenizer has 512; the vocabulary is padded to a multiple of
// make_vocab_size_divisible_by times model ranks. GPT-NeoX-20B has 50,432 rows (its config.json on the hub).
TEST_CASE("the tokenizer of a file of GPT-NeoX says its vocabulary, or it is asked for") {
  const auto rows = [](const std::string& more) {
    std::string text = some(more);
    const std::string said = "\"vocab_size\": 50000, ";
    text.erase(text.find(said), said.size());
    return parse_plan(imported(text).document->dump(), "plan.json").model;
  };
  CHECK(rows("").vocab_size == 50257);
  CHECK(rows("\"tokenizer_type\": \"CharLevelTokenizer\"").vocab_size == 512);
  CHECK_THROWS_AS(rows("\"tokenizer_type\": \"HFTokenizer\", \"vocab_file\": \"20B_tokenizer.json\""), ConfigError);
  arguments::PlanNeeds needs{"dgx-a100-80gb", 16, "", 0, {2024, 3}};
  needs.set = {{"vocab_size", 50277}};
  const auto plan = arguments::import_arguments(some("\"tokenizer_type\": \"HFTokenizer\""), "run.yml", arguments::read_table("gpt-neox"), needs);
  CHECK(field(plan, "model.vocab_size") == 50277);
  CHECK((50277 + 255) / field(plan, "model.pad_vocab_to").get<int>() * 256 == 50432);
}

TEST_CASE("GPT-NeoX's gated MLP has two thirds of its width, in whole multiples") {
  // LLaMA 7B of configs/llama: 32,768 becomes 11,008, the published width (arXiv 2302.13971).
  const arguments::ImportedPlan plan = imported(some(R"("activation": "swiglu", "intermediate_size": 32768, "mlp_multiple_of": 256)"));
  CHECK(field(plan, "model.ffn_hidden_size") == 11008);
  CHECK(field(plan, "model.activation") == "swiglu");
}

TEST_CASE("parallel residuals, flash attention and windows of GPT-NeoX are a plan's") {
  const arguments::ImportedPlan plan = imported(some(R"("gpt_j_residual": true, "attention_config": [[["flash"], 24]], "sliding_window_width": 511)"));
  CHECK(field(plan, "model.parallel_residual") == "two_norms");  // transformer.py: the norms of GPT-NeoX-20B are not tied
  CHECK(field(plan, "training.flash_attention") == true);
  CHECK(field(plan, "model.window.size") == 512);  // flash_attn: a window of 511 tokens before a token's own
}

TEST_CASE("checkpoints in the host's memory are a plan's offloaded activations") {
  CHECK(field(imported(some(R"("checkpoint_activations": true, "checkpoint_in_cpu": true)")), "parallel.offload.activations") == json{"all"});
  CHECK(field(imported(some(R"("checkpoint_in_cpu": true)")), "parallel.offload.activations").is_null());
}

TEST_CASE("two files of GPT-NeoX are read as one") {
  const std::string second = (std::filesystem::temp_directory_path() / "tandem_gpt_neox_training.yml").string();
  write_text(second, "{" + kTraining + "}");
  const arguments::ImportedPlan plan = imported("{" + kModel + "}", second);
  CHECK(*plan.document == *imported(some()).document);
  CHECK_THROWS_AS(imported(some(), second), ConfigError);  // every field of training stands twice
  std::filesystem::remove(second);
}

TEST_CASE("a field of GPT-NeoX with a dash and with an underscore is refused") {
  CHECK_THROWS_AS(imported(some("\"num_layers\": 12")), ConfigError);
}

TEST_CASE("other layers, preferences, precisions and shared checkpoints of GPT-NeoX are refused by name") {
  for (const char* more : {R"("attention_config": [[["mamba"], 24]])", R"("train_impl": "dpo")", R"("checkpoint_activations": true, "partition_activations": true)",
                           R"("optimizer_of_mine": 1)", R"("use_bnb_optimizer": true)"}) {
    CAPTURE(more);
    CHECK(arguments::refusals(imported(some(more))).size() == 1);
  }
  CHECK_THROWS_WITH(imported(some(R"("precision": "bf16")")), Catch::Contains("precision") && Catch::Contains("'bfloat16'"));
}

TEST_CASE("a file of GPT-NeoX is not taken for DeepSpeed's") {
  const json file = {{"pipe_parallel_size", 1}, {"train_micro_batch_size_per_gpu", 4}, {"zero_optimization", {{"stage", 1}}}};
  CHECK(arguments::read_table("gpt-neox").recognises(file));
  CHECK_FALSE(arguments::read_table("deepspeed").recognises(file));
}
