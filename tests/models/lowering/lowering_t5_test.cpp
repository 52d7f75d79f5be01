// The parameters of a lowered T5 against the published count, and what is refused.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

Plan plan_of(const json& model, const json& parallel = json::object(), const json& training = json::object()) {
  const std::int64_t ranks = parallel.value("tensor", 1) * parallel.value("pipeline", 1) * parallel.value("data", 1) *
                             parallel.value("context", 1);
  json t = {{"seq_length", 16}, {"decoder_seq_length", 8}, {"micro_batch_size", 1}, {"global_batch_size", 8}};
  t.update(training);
  const json plan = {{"model", model}, {"parallel", parallel}, {"training", t},
                     {"cluster", {{"preset", "cpu-host"}, {"devices", ranks}}}};
  return parse_plan(plan.dump(), "t5.json");
}

const json kSmall = {{"family", "t5"},   {"num_layers", 3},   {"num_decoder_layers", 2},  {"hidden_size", 24},
                     {"head_dim", 5},    {"vocab_size", 37},  {"num_attention_heads", 4}, {"ffn_hidden_size", 40},
                     {"pad_vocab_to", 8}};

/// Elements of every tensor once, however many stages have a copy.
std::int64_t lowered_elements(const Plan& plan) {
  std::map<std::string, std::int64_t> tensors;
  for (const Program& program : lower(plan).programs)
    for (const Param& p : program.params) tensors[p.name] = p.full_rows * p.full_cols;
  std::int64_t sum = 0;
  for (const auto& [name, elements] : tensors) sum += elements;
  return sum;
}

/// Fields of a refusal.
std::set<std::string> refused(const Plan& plan) {
  std::set<std::string> fields;
  try {
    lower(plan);
  } catch (const InfeasibleError& e) {
    for (const Problem& p : e.problems()) fields.insert(p.field);
  }
  return fields;
}

}  // namespace

TEST_CASE("a lowered T5 has the parameters that are counted, on every layout") {
  json model = kSmall;
  model["tie_embeddings"] = GENERATE(true, false);
  model["activation"] = GENERATE("relu", "geglu");
  model["linear_bias"] = model["qkv_bias"] = model["activation"] == "geglu";
  model["num_kv_heads"] = GENERATE(2, 4);
  const json parallel = GENERATE(json::object(), json{{"tensor", 2}}, json{{"pipeline", 3}}, json{{"data", 2}, {"zero_stage", 1}});
  const Plan plan = plan_of(model, parallel);
  CHECK(lowered_elements(plan) == count_parameters(plan.model, plan.padded_vocab_size()).total);
}

namespace {

json with_learned_positions() {
  json model = kSmall;
  model["position_embedding"] = "learned";
  model["max_position_embeddings"] = 21;
  return model;
}

bool has(const Program& program, const std::string& name) {
  return std::any_of(program.params.begin(), program.params.end(), [&](const Param& p) { return p.name == name; });
}

}  // namespace

TEST_CASE("a lowered T5 with learned positions has one table more and none of relative positions, on every layout") {
  const json parallel = GENERATE(json::object(), json{{"tensor", 2}, {"sequence_parallel", true}}, json{{"pipeline", 3}},
                                 json{{"data", 2}, {"zero_stage", 3}});
  const Plan plan = plan_of(with_learned_positions(), parallel), relative = plan_of(kSmall, parallel);
  const std::int64_t elements = lowered_elements(plan);
  CHECK(elements == count_parameters(plan.model, plan.padded_vocab_size()).total);
  // One row a position and no more than one table, where the other has a number a bucket and head for both stacks.
  CHECK(elements - lowered_elements(relative) == 21 * 24 - 2 * 32 * 4);
}

TEST_CASE("the stages where a stack begins have the table of learned positions, and sum its gradient") {
  const json parallel = {{"pipeline", 4}, {"pipeline_split", {2, 1, 1, 1}}};  // the third stage begins with the decoder
  const Plan plan = plan_of(with_learned_positions(), parallel);
  CHECK(position_stages(plan) == std::vector<std::int32_t>{0, 2});
  TaskGraph graph = lower(plan);
  graph.check();
  for (std::size_t s = 0; s < 4; ++s) {
    INFO("stage " << s);
    CHECK(has(graph.programs[s], "embedding.position.weight") == (s == 0 || s == 2));
  }
  Program& p = graph.programs[2];
  const auto it = std::find_if(p.instances.begin(), p.instances.end(),
                               [&](const Instance& i) { return graph.of(i).name == "position_reduce"; });
  REQUIRE(it != p.instances.end());
  p.instances.erase(it);
  p.edges.clear();  // what remains is judged by communication alone
  CHECK_THROWS_AS(graph.check(), ContractError);
}

// Megatron-LM's functional test t5_11b: 24 + 24 layers of 4096, 64 heads, an MLP of 10240; without the output's bias.
TEST_CASE("the T5 of Megatron-LM has a parameter for each that its modules hold") {
  const json model = {{"family", "t5"}, {"num_layers", 24}, {"num_decoder_layers", 24}, {"hidden_size", 4096},
                      {"num_attention_heads", 64}, {"ffn_hidden_size", 10240}, {"vocab_size", 29184}, {"pad_vocab_to", 128},
                      {"position_embedding", "learned"}, {"max_position_embeddings", 512}, {"activation", "gelu"},
                      {"normalization", "layernorm"}, {"linear_bias", true}};
  const Plan plan = plan_of(model, json::object(), {{"seq_length", 512}, {"decoder_seq_length", 128}});
  const std::int64_t h = 4096, f = 10240, norm = 2 * h, attention = 4 * h * h + 4 * h, mlp = 2 * h * f + f + h;
  const std::int64_t encoder = attention + mlp + 2 * norm, decoder = encoder + attention + norm;
  CHECK(lowered_elements(plan) == 24 * (encoder + decoder) + 2 * norm + (29184 + 512) * h);
}

TEST_CASE("positions that the table does not hold are refused, of both stacks") {
  json model = with_learned_positions();
  model["max_position_embeddings"] = 7;
  std::set<std::string> fields;
  try {
    plan_of(model);
  } catch (const InfeasibleError& e) {
    for (const Problem& p : e.problems()) fields.insert(p.field);
  }
  CHECK(fields == std::set<std::string>{"training.seq_length", "training.decoder_seq_length"});
}

TEST_CASE("the lowered T5 of 11 billion has the published number of parameters") {
  const Plan plan = plan_of({{"preset", "t5-11b"}}, {{"pipeline", 2}}, {{"seq_length", 512}, {"decoder_seq_length", 512}});
  REQUIRE(plan.padded_vocab_size() == plan.model.vocab_size);
  CHECK(lowered_elements(plan) == 11'307'321'344);
}

TEST_CASE("every parameter of a T5 counts in the norm on one stage") {
  const json parallel = GENERATE(json{{"pipeline", 1}}, json{{"pipeline", 2}}, json{{"pipeline", 3}, {"pipeline_split", {1, 3, 1}}});
  std::map<std::string, int> counted;
  for (const Program& program : lower(plan_of(kSmall, parallel)).programs)
    for (const Param& p : program.params) counted[p.name] += p.in_norm ? 1 : 0;
  for (const auto& [name, times] : counted) {
    INFO(name);
    CHECK(times == 1);
  }
}

TEST_CASE("the check notices a stage that misses a sum of what several stages have") {
  const json parallel = {{"pipeline", 4}, {"pipeline_split", {2, 1, 1, 1}}};  // the third stage begins with the decoder
  const std::string missing = GENERATE("tie_reduce", "relative_reduce");
  TaskGraph graph = lower(plan_of(kSmall, parallel));
  REQUIRE_NOTHROW(graph.check());
  Program& p = graph.programs[2];
  const auto it = std::find_if(p.instances.begin(), p.instances.end(),
                               [&](const Instance& i) { return graph.of(i).name == missing; });
  REQUIRE(it != p.instances.end());
  p.instances.erase(it);
  p.edges.clear();  // what remains is judged by communication alone
  CHECK_THROWS_AS(graph.check(), ContractError);
}

TEST_CASE("stages that use the word matrix: where a stack begins, and where it is the output matrix") {
  json model = kSmall;
  const json parallel = {{"pipeline", 4}, {"pipeline_split", {2, 1, 1, 1}}};
  CHECK(word_stages(plan_of(model, parallel)) == std::vector<std::int32_t>{0, 2, 3});
  model["tie_embeddings"] = false;
  CHECK(word_stages(plan_of(model, parallel)) == std::vector<std::int32_t>{0, 2});
}

TEST_CASE("what a T5 cannot have yet is refused by its field") {
  const auto with = [](const char* field, const json& value) {
    json model = kSmall;
    model[field] = value;
    return model;
  };
  using Fields = std::set<std::string>;
  CHECK(refused(plan_of(kSmall)).empty());
  CHECK(refused(plan_of(with_learned_positions(), json::object(), {{"flash_attention", true}})).empty());
  CHECK(refused(plan_of(with("norm_placement", "post"))) == Fields{"model.norm_placement"});
  CHECK(refused(plan_of(with("position_embedding", "alibi"))) == Fields{"model.position_embedding"});
  CHECK(refused(plan_of(kSmall, {{"context", 2}, {"context_mode", "all_gather"}})) == Fields{"parallel.context"});
  CHECK(refused(plan_of(kSmall, {{"pipeline", 2}, {"schedule", "zb-h1"}})) == Fields{"parallel.schedule"});
  CHECK(refused(plan_of(kSmall, json::object(), {{"flash_attention", true}})) == Fields{"training.flash_attention"});
  CHECK(refused(plan_of(with("moe", {{"num_experts", 4}}))) == Fields{"model.moe.num_experts"});
}
