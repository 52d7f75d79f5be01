#include "experiments/tandem/import/report.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/graph/model_flops.hpp"
#include "models/graph/task_graph.hpp"
#include "models/planfile/plan_flops.hpp"
#include "models/planfile/plan_trained.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using import::Import;
using nlohmann::json;

namespace {

const json& fixtures() {
  static const json all = read_json(tests::source_dir() + "/tests/fixtures/huggingface.json");
  return all;
}

class Folder : public tests::TemporaryFolder {
 public:
  Import made(const json& config, bool approximate = false, std::int64_t sequence = 0) {
    file("config.json", config.dump());
    return import::make_import(at("config.json"), sequence, approximate);
  }
};

/// A plan of one rank of the imported model, flash attention, one sequence.
Plan plan_of(const Import& made, std::int64_t sequence) {
  const nlohmann::ordered_json section = made.document()["model"];
  nlohmann::ordered_json plan = {{"model", section},
                                 {"training", {{"seq_length", sequence}, {"micro_batch_size", 1}, {"global_batch_size", 1}, {"flash_attention", true}}},
                                 {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
  plan["model"]["pad_vocab_to"] = 1;
  return parse_plan(plan.dump(), "plan.json", PlanContext{[](const std::string&) { return std::string("cpu"); }});
}

/// FLOPs of all tasks of the plan's graph, without recomputation.
double graph_flops(const Plan& plan) {
  const TaskGraph graph = lower(plan);
  const ExpertRows rows = expert_rows(graph);
  double sum = 0;
  for (const Program& program : graph.programs)
    for (const Instance& i : program.instances)
      for (const Task& t : graph.of(i).tasks) sum += static_cast<double>(model_flops(t, i.phase, rows).count());
  return sum;
}

json small(const std::string& type, const json& changes = json::object()) {
  json config = {{"model_type", type}, {"hidden_size", 64}, {"num_hidden_layers", 3}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                 {"head_dim", 24}, {"intermediate_size", 96}, {"vocab_size", 128}, {"max_position_embeddings", 256}, {"sliding_window", nullptr}};
  config.update(changes);
  return config;
}

}  // namespace

TEST_CASE("a model that is read has exactly the parameters and the FLOPs of its plan") {
  Folder folder;
  int read = 0;
  for (const json& f : fixtures()) {
    if (!f["refused"].empty()) continue;
    INFO(f["name"].get<std::string>());
    const Import made = folder.made(f["config"]);
    CHECK_FALSE(made.refused);
    CHECK(made.model.counts.parameters == f["parameters"].get<std::int64_t>());
    CHECK(made.plan_parameters == made.model.counts.text_parameters + made.model.counts.mtp_parameters);  // towers apart
    if (made.plan_flops) CHECK(*made.plan_flops == Approx(made.model.counts.training_flops).epsilon(1e-12));
    ++read;
  }
  CHECK(read >= 25);
}

TEST_CASE("of twenty-five configurations of 2026 all but two are read, and all but three train") {
  using Names = std::vector<std::string>;
  Folder folder;
  Names unread, simulated;
  for (std::size_t i = 0; i < 25; ++i) {
    const json& f = fixtures()[i];
    const std::string name = f["name"].get<std::string>();
    const Import made = folder.made(f["config"]);
    if (made.refused) {
      unread.push_back(name);
      continue;
    }
    try {
      const Plan plan = plan_of(made, 4096);
      require_lowerable(plan);
      require_trainable(plan);
    } catch (const InfeasibleError&) {
      simulated.push_back(name);
    }
  }
  CHECK(unread == Names{"deepseek-ai/DeepSeek-V4-Flash", "moonshotai/Kimi-K3"});
  CHECK(simulated == Names{"MiniMaxAI/MiniMax-M3"});
}

TEST_CASE("an approximation exists for every model that a table describes, and its error is told") {
  Folder folder;
  for (const json& f : fixtures()) {
    if (f["refused"].empty()) continue;
    INFO(f["name"].get<std::string>());
    CHECK(folder.made(f["config"]).refused);
    const Import made = folder.made(f["config"], true);
    CHECK_FALSE(made.refused);
    const json told = json::parse(import::to_json(made, made.document()));
    CHECK(told["status"] == "approximated");
    const auto text = static_cast<double>(made.model.counts.text_parameters + made.model.counts.mtp_parameters);
    const json& error = told["parameters"]["relative_error"];
    if (made.model.counts.text_complete) CHECK(error.get<double>() == Approx(static_cast<double>(made.plan_parameters) / text - 1));
    else CHECK(error.is_null());
    if (made.plan_flops) CHECK(told["flops_per_token"]["plan"].get<double>() == Approx(*made.plan_flops));
  }
}

TEST_CASE("the closed form of FLOPs is the task graph's") {
  Folder folder;
  const std::vector<json> configs = {
      small("llama"), small("gemma"), small("nemotron", {{"hidden_act", "relu2"}}),
      small("mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}}),
      small("glm4_moe", {{"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}, {"n_shared_experts", 1},
                         {"first_k_dense_replace", 1}, {"num_nextn_predict_layers", 2}}),
      small("deepseek_v32", {{"q_lora_rank", 16}, {"kv_lora_rank", 8}, {"qk_nope_head_dim", 16}, {"qk_rope_head_dim", 8}, {"v_head_dim", 24},
                             {"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}, {"n_shared_experts", 1},
                             {"first_k_dense_replace", 1}, {"n_group", 1}, {"topk_group", 1}, {"index_n_heads", 2}, {"index_head_dim", 12},
                             {"index_topk", 10}, {"num_nextn_predict_layers", 1}}),
      {{"model_type", "gpt2"}, {"n_embd", 64}, {"n_layer", 2}, {"n_head", 4}, {"vocab_size", 128}, {"n_positions", 64}}};
  for (const json& config : configs) {
    INFO(config.dump());
    const std::int64_t sequence = 32;
    const Import made = folder.made(config, false, sequence);
    CHECK_FALSE(made.refused);
    CHECK(*made.plan_flops * static_cast<double>(sequence) == Approx(graph_flops(plan_of(made, sequence))).epsilon(1e-12));
  }
}

TEST_CASE("latent attention is approximated by heads that cost as many FLOPs") {
  Folder folder;
  const Import made = folder.made({{"model_type", "deepseek_v3"}}, true);
  CHECK(made.model.counts.parameters == 671026404352);
  CHECK(std::abs(*made.plan_flops / (3 * made.model.counts.forward_flops) - 1) < 0.01);
}

TEST_CASE("the report tells where each field came from") {
  Folder folder;
  json config = small("llama");
  config.erase("max_position_embeddings");
  config.update({{"use_cache", true}, {"shiny", 1}, {"head_dim", nullptr}});
  const json told = json::parse(import::to_json(folder.made(config), {}));
  const auto origin = [&](const std::string& field) {
    for (const json& f : told["fields"])
      if (f["field"] == field) return f["origin"].get<std::string>();
    return std::string();
  };
  CHECK(origin("model.hidden_size") == "used");
  CHECK(origin("model.ffn_hidden_size") == "used");
  CHECK(origin("model.max_position_embeddings") == "defaulted");
  CHECK(origin("model.head_dim") == "derived");
  CHECK(origin("model.normalization") == "architecture");
  CHECK(told["ignored"] == json{"model_type", "use_cache"});
  CHECK(told["unknown"] == json{"shiny"});
  const std::string text = import::to_text(folder.made(config), false);
  CHECK(text.find("not known here, ignored: shiny") != std::string::npos);
}
