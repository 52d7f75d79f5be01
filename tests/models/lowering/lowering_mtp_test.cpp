// Modules of multi-token prediction: where they stand, what they are made of, and what of the model they share.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/graph/segments.hpp"
#include "models/plan/mesh.hpp"
#include "tests/catch.hpp"
#include "tests/models/lowering/lowered.hpp"

using namespace tandem;
using nlohmann::json;
using tests::graph_of;
using tests::has;
using tests::parsed;
using tests::refusal;

namespace {

json plan_of(const json& model, const json& parallel = json::object()) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 4}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"num_kv_heads", 2},
                          {"vocab_size", 64}, {"mtp", {{"num_layers", 2}, {"loss_scale", 0.3}}}}},
               {"training", {{"seq_length", 16}, {"micro_batch_size", 1}, {"global_batch_size", 8}, {"precision", "bf16"}}},
               {"parallel", parallel},
               {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
  plan["model"].merge_patch(model);
  return tests::with_devices(plan);
}

/// Names of the templates that a stage runs in a phase of micro-batch 1.
std::vector<std::string> passes(const TaskGraph& graph, std::size_t stage, Phase phase) {
  std::vector<std::string> names;
  for (const Instance& i : graph.programs[stage].instances)
    if (i.micro_batch == 1 && i.phase == phase) names.push_back(graph.of(i).name);
  return names;
}

std::vector<CrossEntropy> losses(const TaskGraph& graph) {
  std::vector<CrossEntropy> found;
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (const auto* op = std::get_if<CrossEntropy>(&task.op); op && t.name == "head_forward") found.push_back(*op);
  return found;
}

std::int64_t stored(const TaskGraph& graph) {
  std::int64_t n = 0;
  for (const Program& p : graph.programs)
    for (const Param& param : p.params) n += param.in_norm ? param.elements() : 0;
  return n;
}

const json kPlain = json::object();
const json kExperts = {{"moe", {{"num_experts", 4}, {"experts_per_token", 2}, {"ffn_hidden_size", 16}, {"num_shared_experts", 1},
                                {"first_dense_layers", 1}}}};

}  // namespace

TEST_CASE("modules run one after the other between the last layer and the head, and back from the last one") {
  const TaskGraph graph = graph_of(plan_of(kPlain, {{"pipeline", 2}}));
  CHECK(passes(graph, 0, Phase::forward) == std::vector<std::string>{"embed_forward", "block_forward", "block_forward", "send_forward"});
  CHECK(passes(graph, 1, Phase::forward) ==
        std::vector<std::string>{"recv_forward", "block_forward", "block_forward", "final_norm_forward", "mtp_forward", "block_forward",
                                 "mtp_norm_forward", "mtp_forward", "block_forward", "mtp_norm_forward", "head_forward"});
  CHECK(passes(graph, 1, Phase::backward) ==
        std::vector<std::string>{"head_backward", "mtp_norm_backward", "block_backward", "mtp_backward", "mtp_norm_backward",
                                 "block_backward", "mtp_backward", "mtp_words", "final_norm_backward", "block_backward", "block_backward",
                                 "send_backward"});
}

TEST_CASE("the last stage may have the modules and the head alone") {
  const TaskGraph graph = graph_of(plan_of(kPlain, {{"pipeline", 3}, {"pipeline_split", {2, 2, 0}}}));
  CHECK(passes(graph, 2, Phase::forward) ==
        std::vector<std::string>{"recv_forward", "final_norm_forward", "mtp_forward", "block_forward", "mtp_norm_forward", "mtp_forward",
                                 "block_forward", "mtp_norm_forward", "head_forward"});
  CHECK_THROWS_WITH(parsed(plan_of(kPlain, {{"pipeline", 3}, {"pipeline_split", {2, 0, 2}}})), Catch::Contains("parallel.pipeline_split"));
}

TEST_CASE("a graph has the parameters that are counted, and counts none twice") {
  for (const json& model : {json::object(), json{{"tie_embeddings", true}}, kExperts, json{{"norm_placement", "sandwich"}},
                            json{{"norm_placement", "behind"}}, json{{"normalization", "layernorm"}, {"linear_bias", true}}})
    for (const std::int64_t stages : {1, 2}) {
      const json plan = plan_of(model, {{"pipeline", stages}});
      INFO(model.dump() << " on " << stages);
      const Plan p = parsed(plan);
      json without = plan;
      without["model"]["mtp"]["num_layers"] = 0;
      const ParameterCount count = count_parameters(p.model, p.padded_vocab_size());
      CHECK(stored(graph_of(plan)) == count.total_padded);
      CHECK(stored(graph_of(plan)) - stored(graph_of(without)) == count.mtp);
    }
}

TEST_CASE("DeepSeek-V3 has 671.0 billion parameters, and its module 11.6 beside what it shares") {
  ModelSpec m = load_model("deepseek-v3");
  const std::int64_t alone = count_parameters(m, m.vocab_size).total;
  m.mtp.num_layers = 1;
  const ParameterCount with = count_parameters(m, m.vocab_size);
  CHECK(alone == 671026404352);
  CHECK(with.total - alone == with.mtp);
  // A layer with experts, 2 x 7168 x 7168 and three norms (deepseek-ai/DeepSeek-V3: README_WEIGHTS.md says 11.5 billion).
  CHECK(with.mtp == with.per_moe_layer + 2 * 7168 * 7168 + 3 * 7168);
  CHECK(static_cast<double>(with.mtp) / 1e9 == Approx(11.5).margin(0.15));
}

TEST_CASE("each loss is a mean over the tokens that there are, and the modules' share the loss' scale") {
  const std::vector<CrossEntropy> found = losses(graph_of(plan_of(kPlain)));
  REQUIRE(found.size() == 6);  // of the first micro-batch and of the others
  for (std::size_t i = 0; i < 6; i += 3) {
    CHECK(found[i].global_tokens == 8 * 16);
    CHECK(found[i].weight == 1);
    CHECK(found[i + 1].global_tokens == 8 * 15);
    CHECK(found[i + 2].global_tokens == 8 * 14);
    for (const std::size_t k : {1, 2}) CHECK(found[i + k].weight == Approx(0.15));
    CHECK(found[i + 1].first);  // the modules' losses are summed apart from the model's
    CHECK_FALSE(found[i + 2].first);
  }
}

TEST_CASE("the last stage has a copy of the embedding, whose gradients are summed with the first stage's") {
  for (const bool tied : {false, true}) {
    const json plan = plan_of({{"tie_embeddings", tied}}, {{"pipeline", 3}});
    CHECK(word_stages(parsed(plan)) == std::vector<std::int32_t>{0, 2});
    const TaskGraph graph = graph_of(plan);
    const auto has = [&](std::size_t stage, const std::string& name) {
      const auto& params = graph.programs[stage].params;
      return std::any_of(params.begin(), params.end(), [&](const Param& p) { return p.name == name; });
    };
    CHECK(has(0, "embedding.word.weight"));
    CHECK_FALSE(has(1, "embedding.word.weight"));
    CHECK(has(2, "embedding.word.weight"));
    CHECK(has(2, "output.weight") == !tied);
    for (const std::size_t stage : {0, 2}) {
      int sums = 0;
      for (const Instance& i : graph.programs[stage].instances) sums += graph.of(i).name == "tie_reduce";
      CHECK(sums == 1);
    }
  }
}

TEST_CASE("an evaluation runs no modules, and its weights lie where those of training do") {
  const Plan plan = parsed(plan_of(kPlain, {{"pipeline", 2}}));
  const TaskGraph graph = lower_evaluation(plan), training = lower(plan);
  graph.check();
  for (const Template& t : graph.templates) CHECK(t.name.find("mtp") == std::string::npos);
  for (std::size_t s = 0; s < 2; ++s) {
    REQUIRE(graph.programs[s].params.size() == training.programs[s].params.size());
    for (std::size_t p = 0; p < graph.programs[s].params.size(); ++p)
      CHECK(graph.programs[s].params[p].offset == training.programs[s].params[p].offset);
  }
}

TEST_CASE("modules run again where all layers do, and not where some do") {
  for (const std::int64_t layers : {0, 2}) {
    json plan = plan_of(kPlain);
    plan["training"].update({{"recompute", "full"}, {"recompute_layers", layers}});
    const TaskGraph graph = graph_of(plan);
    std::vector<std::int32_t> again;
    for (const Instance& i : graph.programs[0].instances)
      if (i.phase == Phase::recompute && i.micro_batch == 0) again.push_back(i.layer);
    std::sort(again.begin(), again.end());
    CHECK(again == (layers == 0 ? std::vector<std::int32_t>{0, 1, 2, 3, 4, 5} : std::vector<std::int32_t>{0, 1}));
  }
}

TEST_CASE("plans with modules are lowered under every schedule, ZeRO stage and kind of ranks") {
  for (const json& model : {json::object(), kExperts})
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "breadth-first"})
      for (const int zero : {0, 1, 2, 3}) {
        INFO(schedule << " zero " << zero);
        json parallel = {{"pipeline", 2}, {"data", 2}, {"zero_stage", zero}, {"schedule", schedule}, {"tensor", 2},
                         {"sequence_parallel", true}, {"context", 2}, {"context_mode", "all_gather"}};
        const std::string kind = schedule;
        if (kind == "interleaved" || kind == "breadth-first") parallel["virtual_pipeline"] = 2;
        if (model.contains("moe")) parallel["expert"] = 2;
        graph_of(plan_of(model, parallel));
      }
}

TEST_CASE("what modules are not built of is refused by its field") {
  CHECK(refusal(plan_of(kPlain)).empty());
  CHECK(refusal(plan_of({{"family", "bert"}, {"num_kv_heads", 4}})).find("model.mtp.num_layers") != std::string::npos);
  CHECK(refusal(plan_of({{"family", "t5"}, {"num_kv_heads", 4}})).find("model.mtp.num_layers") != std::string::npos);
  CHECK(refusal(plan_of({{"family", "gpt"}})).find("model.position_embedding") != std::string::npos);
  CHECK(refusal(plan_of({{"norm_placement", "post"}})).find("model.norm_placement") != std::string::npos);
  CHECK(refusal(plan_of({{"embedding_norm", true}})).find("model.embedding_norm") != std::string::npos);
  CHECK_THROWS_WITH(parsed(plan_of({{"mtp", {{"num_layers", 16}}}})), Catch::Contains("model.mtp.num_layers"));
}
