// What a prediction says where Tandem's own attention kernel runs.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

/// A plan with the attention of bloom-560m, without its positions: 32 heads of 64 and 2,048 keys.
json document(const json& model, const char* fusion = "tandem-cuda") {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 1}, {"hidden_size", 2048}, {"num_attention_heads", 32}, {"vocab_size", 64}}},
               {"training", {{"seq_length", 2048}, {"micro_batch_size", 1}, {"global_batch_size", 1}, {"precision", "bf16"},
                             {"flash_attention", true}, {"fusion", fusion}}},
               {"cluster", {{"preset", "dgx-h100"}, {"devices", 1}}},
               {"stack", "tandem"}};
  plan["model"].update(model);
  return plan;
}

Prediction predicted(const json& document) {
  const Plan plan = parse_plan(document.dump(), "own.json");
  return sim::simulate(plan, lower(plan), *make_topology(plan.cluster));
}

std::string note_of(const Prediction& p) {
  const auto found = std::ranges::find_if(p.notes, [](const std::string& note) { return note.starts_with("Tandem's own kernel"); });
  return found == p.notes.end() ? "" : *found;
}

}  // namespace

TEST_CASE("a note names the rate that Tandem's own attention was measured at, and what is faster") {
  const std::string note = note_of(predicted(document({{"position_embedding", "alibi"}})));
  CAPTURE(note);
  CHECK(note.find("at 1.28 TFLOP/s, as Tandem calls no library where positions are ALiBi") != note.npos);  // measured/h100/unseen.json
  CHECK(note.find("training.flash_attention false computes it") != note.npos);
  CHECK(note_of(predicted(document(json::object()))).empty());
  json separate = document(json::object());
  separate["training"]["documents"] = "separate";
  CHECK(note_of(predicted(separate)).find("as Tandem calls no library where documents are kept apart") != note.npos);
  CHECK(note_of(predicted(document({{"position_embedding", "alibi"}}, "megatron"))).empty());
}

TEST_CASE("the remedy that a note names makes the step as much faster as a step of attention can") {
  json plan = document({{"position_embedding", "alibi"}});
  const double own = predicted(plan).step_time.seconds();
  plan["training"]["flash_attention"] = false;
  CHECK(predicted(plan).step_time.seconds() < own / 3);
  CHECK(note_of(predicted(plan)).empty());
}
