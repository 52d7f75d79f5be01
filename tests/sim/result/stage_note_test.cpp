// What a prediction says of a pipeline whose stages take unequal times.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

/// A llama on four stages whose layers have 96 million weights, 25 million of them attention's.
json document(std::int64_t vocabulary, std::int64_t layers = 12) {
  return {{"model", {{"family", "llama"}, {"num_layers", layers}, {"hidden_size", 2048}, {"num_attention_heads", 16},
                     {"ffn_hidden_size", 11520}, {"vocab_size", vocabulary}, {"pad_vocab_to", 1}}},
          {"parallel", {{"pipeline", 4}}},
          {"training", {{"seq_length", 2048}, {"micro_batch_size", 1}, {"global_batch_size", 64}, {"precision", "bf16"}, {"flash_attention", true}}},
          {"cluster", {{"preset", "dgx-h100"}, {"devices", 4}}},
          {"stack", "tandem"}};
}

Prediction predicted(const json& document) {
  const Plan plan = parse_plan(document.dump(), "stages.json");
  return sim::simulate(plan, lower(plan), *make_topology(plan.cluster));
}

std::string note_of(const Prediction& p) {
  const auto found = std::ranges::find_if(p.notes, [](const std::string& note) { return note.find("parallel.pipeline_split") != note.npos; });
  return found == p.notes.end() ? "" : *found;
}

json split_in(const std::string& note) {
  const auto begin = note.find('['), end = note.find(']');
  return json::parse(note.substr(begin, end - begin + 1));
}

/// The longest computation of a role.
double longest(const Prediction& p) {
  double most = 0;
  for (const RolePrediction& r : p.roles) most = std::max(most, r.time_breakdown_s.at("compute"));
  return most;
}

/// Predicts a plan, and the same with the split that its note names.
void check_named_split_is_faster(json plan, double share) {
  const Prediction now = predicted(plan);
  const std::string note = note_of(now);
  CAPTURE(note);
  REQUIRE_FALSE(note.empty());
  plan["parallel"]["pipeline_split"] = split_in(note);
  const Prediction better = predicted(plan);
  CAPTURE(now.step_time.seconds(), better.step_time.seconds());
  CHECK(better.step_time.seconds() < share * now.step_time.seconds());
  CHECK(note_of(better).empty());
}

}  // namespace

TEST_CASE("a note names the split that shortens a pipeline with a large head, and how long its longest stage then takes") {
  json plan = document(192000);  // a head of 393 million weights: four layers' work
  const Prediction even = predicted(plan);
  const std::string note = note_of(even);
  CAPTURE(note);
  REQUIRE(note.starts_with("the passes of stage 3 take "));
  plan["parallel"]["pipeline_split"] = split_in(note);
  CHECK(split_in(note).back() <= 1);  // an even split has 3 + 4 on the last stage
  const Prediction better = predicted(plan);
  CHECK(better.step_time.seconds() < 0.85 * even.step_time.seconds());
  const auto about = note.find("about ");
  CHECK(longest(better) == Approx(std::stod(note.substr(about + 6))).epsilon(0.1));
  CHECK(note_of(better).empty());
}

TEST_CASE("no note on stages where stages are alike, or no whole layer can be moved") {
  CHECK(note_of(predicted(document(512))).empty());
  CHECK(note_of(predicted(document(48000, 4))).empty());  // a layer a stage and a head of one: it cannot have fewer
}

TEST_CASE("a note weighs layers of other kinds by their own times, and the step with the split that it names is shorter") {
  SECTION("wide dense layers before layers of experts") {
    json mixed = document(512, 30);
    mixed["model"].update({{"hidden_size", 1024}, {"ffn_hidden_size", 16384}});
    mixed["model"]["moe"] = {{"num_experts", 8}, {"experts_per_token", 2}, {"ffn_hidden_size", 1024}, {"first_dense_layers", 10}};
    mixed["parallel"] = {{"pipeline", 2}, {"data", 2}};
    check_named_split_is_faster(mixed, 0.95);
    mixed["parallel"] = {{"pipeline", 4}};
    check_named_split_is_faster(mixed, 0.95);
  }
  SECTION("a hybrid whose MLPs, attention and recurrences are layers of their own") {
    json hybrid = document(512, 24);
    hybrid["model"].update({{"hidden_size", 1024}, {"num_attention_heads", 8}, {"ffn_hidden_size", 8192}});
    hybrid["model"]["sublayers"] = "mfmfmfmmmmmmmmmmmmmmmmmm";
    hybrid["model"]["recurrence"] = {{"rule", "mamba2"}, {"heads", 32}, {"key_heads", 8}, {"key_dim", 128}, {"value_dim", 64},
                                     {"layers", "rrrrrrrrrrrrrrrrrraaaaaa"}};
    check_named_split_is_faster(hybrid, 0.95);
  }
  SECTION("windows in some of the layers") {
    json windows = document(512, 24);
    windows["model"].update({{"hidden_size", 1024}, {"num_attention_heads", 8}, {"ffn_hidden_size", 2816}, {"max_position_embeddings", 16384}});
    windows["model"]["window"] = {{"size", 512}, {"layers", "ffffffwwwwwwwwwwwwwwwwww"}};
    windows["training"].update({{"seq_length", 16384}});
    windows["stack"] = "megatron-core";  // flash attention with windows
    check_named_split_is_faster(windows, 0.9);
  }
  SECTION("several chunks on a stage") {
    json chunks = document(192000, 24);
    chunks["parallel"] = {{"pipeline", 4}, {"schedule", "interleaved"}, {"virtual_pipeline", 2}};
    check_named_split_is_faster(chunks, 0.97);
  }
}

TEST_CASE("what every stage gathers of its received tensors is no work of the last stage") {
  json plan = document(512, 32);
  plan["parallel"] = {{"pipeline", 16}, {"tensor", 8}, {"sequence_parallel", false}, {"scatter_gather_tensors_in_pipeline", true}};
  plan["cluster"] = {{"preset", "dgx-a100-80gb"}, {"devices", 128}};
  CHECK(note_of(predicted(plan)).empty());
}

TEST_CASE("a note names no split that the plan's stack has no option for") {
  json plan = document(192000);
  plan["stack"] = {{"name", "megatron-core"}, {"as_of", "2024-03"}};
  CHECK(note_of(predicted(plan)).empty());
  plan["stack"]["as_of"] = "2025-01";  // the first and the last stage's layers alone
  const json split = split_in(note_of(predicted(plan)));
  CHECK(split[1] == split[2]);
  CHECK(split[3] >= 1);
  plan["stack"] = "internevo";
  CHECK(note_of(predicted(plan)).empty());
}

TEST_CASE("the split is left to the plan's modules of multi-token prediction, and the step is shorter than with as many layers on all stages") {
  json plan = document(48000, 13);  // a head of a layer's work, and a module: two more and a ninth
  plan["model"]["mtp"] = {{"num_layers", 1}};
  const double chosen = predicted(plan).step_time.seconds();
  plan["parallel"]["pipeline_split"] = {3, 4, 3, 3};
  CHECK(chosen < 0.85 * predicted(plan).step_time.seconds());
}
