// Files that torchtitan saves (debug.save_config_file) since its configurations are Python code: pytorch/torchtitan 9810191bb (2026-02-23).

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/arguments/exported_options.hpp"
#include "models/arguments/imported_plan.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

const arguments::Table& table() {
  static const arguments::Table read = arguments::read_table("torchtitan-2026");
  return read;
}

json group(const std::string& name, double rate) {
  return {{"pattern", ".*"},
          {"optimizer_name", name},
          {"optimizer_kwargs", {{"lr", rate}, {"betas", {0.9, 0.95}}, {"eps", 1e-8}, {"weight_decay", 0.1}}}};
}

/// LLaMA 3 8B as llama3_8b() of b5bcd76c6 (2026-08-21) saves it, as far as a plan reads it.
json saved(const json& changes = json::object()) {
  json out = {{"model_spec", {{"name", "llama3"}, {"flavor", "8B"}}},
              {"training", {{"num_tokens_per_microbatch_per_dp_rank", 16384}, {"num_tokens_per_train_step", -1}, {"max_context_length", 8192}, {"steps", 1000},
                            {"disable_cuda_graphs", false}}},
              {"parallelism", {{"data_parallel_replicate_degree", 1}, {"data_parallel_shard_degree", -1}, {"pipeline_parallel_degree", 1}, {"num_pp_microbatches", 1}}},
              {"optimizer", {{"param_groups", {group("AdamW", 3e-4)}}, {"implementation", "fused"}}},
              {"activation_checkpoint", {{"preserve_rng_state", true}, {"force_recompute_mm_shapes_by_fqns", {"moe.router.gate"}}}},
              {"loss", {{"num_chunks", 8}}}};
  out.merge_patch(changes);
  return out;
}

arguments::ImportedPlan imported(const json& file, const std::string& model = "") {
  return arguments::import_arguments(file.dump(), "run.json", table(), {"dgx-h100", 64, model, 0, {2026, 8}});
}

json of(const json& file, const std::string& path) { return tests::field(imported(file), path); }

bool says(const arguments::ImportedPlan& plan, const std::string& word, bool refused) {
  const auto has = [&](const auto& f) { return f.refused == refused && f.name.find(word) != std::string::npos; };
  return std::any_of(plan.features.begin(), plan.features.end(), has);
}

/// A model with experts, whose rows an object of such fields exchanges.
json experts(const json& dispatcher) {
  json layers = json::array();
  for (int i = 0; i < 48; ++i) layers.push_back({{"moe", {{"routed_experts", {{"token_dispatcher", dispatcher}}}}}});
  return saved({{"model_spec", {{"name", "qwen3"}, {"flavor", "30B-A3B"}, {"model", {{"layers", layers}}}}}, {"parallelism", {{"expert_parallel_degree", 8}}}});
}

}  // namespace

TEST_CASE("torchtitan's saved file is a plan of its month") {
  const arguments::ImportedPlan plan = imported(saved());
  CHECK(tests::field(plan, "model.preset") == "llama3-8b");
  CHECK(tests::field(plan, "training.seq_length") == 8192);
  CHECK(tests::field(plan, "training.micro_batch_size") == 2);  // 16,384 tokens of 8,192 each
  CHECK(tests::field(plan, "training.global_batch_size") == 128);
  CHECK(tests::field(plan, "parallel.zero_stage") == 3);
  CHECK(tests::field(plan, "training.recompute_modules") == json{"operations"});
  CHECK(tests::field(plan, "training.cuda_graphs") == "iteration");
  CHECK(tests::field(plan, "training.learning_rate") == 3e-4);
  CHECK(tests::field(plan, "training.beta2") == 0.95);
  CHECK(arguments::refusals(plan).empty());
  CHECK(says(plan, "8 or 4 bits", false));
  CHECK(tests::field(plan, "training.loss_chunks") == 8);
  CHECK(of(saved({{"loss", {{"num_chunks", nullptr}, {"global_vocab_size", 128256}}}}), "training.loss_chunks") == 1);  // CrossEntropyLoss
  CHECK(parse_plan(plan.document->dump(), "plan.json", PlanContext{generation_of}).stack.as_of == Month{2026, 8});
}

TEST_CASE("torchtitan's batches are counted in tokens, and a pipeline's in passes") {
  const json staged = {{"parallelism", {{"pipeline_parallel_degree", 4}, {"num_pp_microbatches", 8}}}};
  CHECK(of(saved(staged), "training.micro_batch_size") == 2);
  CHECK(of(saved(staged), "training.global_batch_size") == 2 * 8 * 16);
  CHECK(of(saved(staged), "training.cuda_graphs") == "none");
  CHECK(of(saved({{"training", {{"num_tokens_per_train_step", 4194304}}}}), "training.global_batch_size") == 512);
  CHECK(of(saved({{"training", {{"num_tokens_per_microbatch_per_dp_rank", 4096}}}}), "training.seq_length") == 4096);
  CHECK(says(imported(saved({{"training", {{"num_tokens_per_microbatch_per_dp_rank", 12288}}}})), "no whole number of sequences", true));
}

TEST_CASE("the class of recomputation is told by its fields") {
  json file = saved();
  file["activation_checkpoint"] = {{"preserve_rng_state", true}};
  CHECK(of(file, "training.recompute") == "full");
  file["activation_checkpoint"] = {{"preserve_rng_state", true}, {"memory_budget", 0.5}};
  CHECK(says(imported(file), "memory_budget", true));
  file["activation_checkpoint"] = nullptr;
  CHECK(of(file, "training.recompute") == "none");
}

TEST_CASE("torchtitan's files of earlier months are dated by their fields") {
  const auto as_of = [](const json& file) {
    return parse_plan(imported(file).document->dump(), "plan.json", PlanContext{generation_of}).stack.as_of;
  };
  json file = saved();
  file["training"] = {{"local_batch_size", 2}, {"global_batch_size", -1}, {"seq_len", 8192}, {"steps", 1000}};
  CHECK(as_of(file) == Month{2026, 7});
  CHECK(of(file, "training.micro_batch_size") == 2);
  CHECK(of(file, "training.cuda_graphs").is_null());
  file["activation_checkpoint"] = {{"mode", "selective"}, {"early_stop", false}};
  CHECK(as_of(file) == Month{2026, 5});
  CHECK(of(file, "training.recompute") == "selective");
  file["activation_checkpoint"]["selective_ac_option"] = "2";
  file["loss"] = nullptr;  // no chunks before May
  CHECK(as_of(file) == Month{2026, 3});
  CHECK(of(file, "training.recompute_layers") == 16);
  file["optimizer"] = {{"name", "AdamW"}, {"lr", 1e-4}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"implementation", "fused"}};
  CHECK(imported(file).stack.as_of == Month{2026, 3});
  CHECK(of(file, "training.learning_rate") == 1e-4);
}

TEST_CASE("torchtitan's dispatcher is told by its fields") {
  const json all = {{"num_experts", 128}, {"top_k", 8}};
  const auto with = [&](json fields) {
    fields.update(all);
    return imported(experts(fields));
  };
  CHECK(tests::field(with({}), "parallel.token_dispatcher").is_null());
  CHECK(tests::field(with({}), "parallel.expert_tensor") == 1);
  CHECK(tests::field(with({{"cudagraphable", false}, {"hidden_dim", 2048}}), "parallel.token_dispatcher") == "deepep");
  const auto hybrid = with({{"non_blocking_capacity_factor", 1.25}, {"pad_multiple", nullptr}});
  CHECK(tests::field(hybrid, "parallel.token_dispatcher") == "deepep");
  CHECK(says(hybrid, "dropped", false));
  CHECK(says(with({{"hidden_dim", nullptr}, {"device", nullptr}}), "MinimalAsyncEP", true));
}

TEST_CASE("what torchtitan's saved file has and a plan cannot say is refused or told") {
  CHECK(says(imported(saved({{"optimizer", {{"param_groups", {group("DistMuon", 1e-3), group("AdamW", 3e-4)}}}}})), "DistMuon", true));
  CHECK(says(imported(saved({{"optimizer", {{"param_groups", {group("AdamW", 1e-3), group("AdamW", 3e-4)}}}}})), "rates of their own", false));
  CHECK(of(saved({{"optimizer", {{"implementation", "fused_opt_states_bf16"}}}}), "training.dtypes.optimizer_state") == "bf16");
  CHECK(says(imported(saved({{"model_converters", {{"converters", {{{"recipe_name", "rowwise"}}}}}}})), "converters", true));
  CHECK(says(imported(saved({{"model_spec", {{"model", {{"layers", {json::object()}}}}}}})), "other layers", true));
  CHECK_FALSE(arguments::refusals(imported(saved({{"parallelism", {{"a_new_field", 3}}}}))).empty());
  CHECK_THROWS_AS(imported(saved({{"model_spec", {{"flavor", "debugmodel"}}}})), ConfigError);
}

namespace {

Plan plan_of(const json& changes) {
  json document = {{"stack", "torchtitan"},
                   {"model", {{"preset", "llama3-8b"}}},
                   {"parallel", {{"zero_stage", 3}}},
                   {"training", {{"seq_length", 8192}, {"micro_batch_size", 1}, {"global_batch_size", 64}, {"recompute", "full"}, {"steps", 1000},
                                 {"learning_rate_decay", "linear"}}},
                   {"cluster", {{"preset", "dgx-h100"}, {"devices", 32}}}};
  document.merge_patch(changes);
  return parse_plan(document.dump(), "plan.json", PlanContext{generation_of});
}

std::string exported(const json& changes) {
  return arguments::export_plan(plan_of(changes), arguments::read_table("torchtitan", {2026, 8}), 8).text;
}

std::vector<std::string> unsaid(const json& changes) {
  const Plan plan = plan_of(changes);
  return arguments::unsaid_fields(plan, arguments::export_plan(plan, table(), 8), table(), PlanContext{generation_of});
}

}  // namespace

TEST_CASE("a plan is exported as what torchtitan takes in its month") {
  CHECK(arguments::read_table("torchtitan", {2026, 2}).written_as() == "toml");
  const std::string text = exported({{"parallel", {{"pipeline", 4}, {"zero_stage", 2}, {"pipeline_split", {7, 9, 9, 7}}}}, {"training", {{"recompute", "selective"},
                                     {"recompute_modules", {"operations"}}}}});
  CHECK(text.find("def plan(config):\n    config.training, config.parallelism, config.compile = TrainingConfig(), ParallelismConfig(), CompileConfig()\n") != std::string::npos);
  for (const char* line : {"config.training.num_tokens_per_microbatch_per_dp_rank = 8192", "config.training.num_tokens_per_train_step = 524288",
                           "config.training.disable_cuda_graphs = True", "config.parallelism.num_pp_microbatches = 8", "config.parallelism.pipeline_parallel_schedule = \"1F1B\"",
                           "config.activation_checkpoint = SelectiveAC.Config(preserve_rng_state=True, force_recompute_mm_shapes_by_fqns=[\"moe.router.gate\"])",
                           "config.optimizer = default_adamw(lr=0.0003, betas=(0.9, 0.95), eps=1e-08, weight_decay=0.1)"})
    CHECK_THAT(text, Catch::Contains(std::string("    ") + line + "\n"));
  CHECK(text.find("config.optimizer.lr") == std::string::npos);
  CHECK_THAT(exported({{"training", {{"recompute", "none"}}}}), Catch::Contains("config.activation_checkpoint = None\n"));
}

TEST_CASE("a plan comes back from what torchtitan saves of its configuration") {
  const json all[] = {{{"training", {{"recompute", "none"}}}},
                      {{"parallel", {{"zero_stage", 2}, {"tensor", 2}}}, {"training", {{"fusion", "compiled"}}}},
                      {{"parallel", {{"pipeline", 4}, {"zero_stage", 2}, {"schedule", "interleaved"}, {"virtual_pipeline", 2}, {"pipeline_split", {3, 4, 4, 4, 4, 4, 4, 5}}}}},
                      {{"parallel", {{"context", 2}}}, {"training", {{"recompute", "selective"}, {"recompute_modules", {"operations"}}}}},
                      {{"training", {{"dtypes", {{"optimizer_state", "bf16"}}}}}},
                      {{"parallel", {{"zero_group", 8}}}, {"training", {{"cuda_graphs", "none"}, {"decay_start", 800}, {"warmup", 10}}}}};
  for (const json& changes : all) {
    CAPTURE(changes.dump());
    CHECK(unsaid(changes) == std::vector<std::string>{});
  }
  CHECK_FALSE(unsaid({{"model", {{"logit_soft_cap", 30}}}, {"training", {{"recompute_layers", 4}}}, {"stack", {{"name", "torchtitan"}, {"rules", "note"}}}}).empty());
}
