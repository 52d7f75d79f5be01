// Notes about plans that can run, and could be better.

#include "models/planfile/plan_advice.hpp"

#include <algorithm>

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

/// How many notes of a plan with these members of `parallel` begin so.
int told(const std::string& beginning, const std::string& members) {
  int times = 0;
  for (const std::string& note : plan_advice(parse_plan(with("parallel", members), "plan.json"))) times += note.starts_with(beginning);
  return times;
}

}  // namespace

TEST_CASE("ZB-H2 and ZB-V are told that a global norm keeps its bubble") {
  CHECK(told("zb-h2 ", "\"schedule\": \"zb-h2\"") == 1);
  CHECK(told("zb-h2 ", "\"schedule\": \"zb-h2\", \"optimizer_sync\": \"post_validated\"") == 0);
  CHECK(told("zb-v ", "\"schedule\": \"zb-v\"") == 1);
  CHECK(told("zb-v ", "\"schedule\": \"zb-v\", \"optimizer_sync\": \"post_validated\"") == 0);
  CHECK(told("zb-h2 ", "\"schedule\": \"zb-h1\"") == 0);
}

TEST_CASE("rotary positions beyond the model's are told") {
  Plan plan = parse_plan(kGoodPlan, "plan.json");
  plan.model.position_embedding = PositionEmbedding::rope;
  plan.model.max_position_embeddings = plan.training.seq_length;
  const auto said = [&] {
    const std::vector<std::string> notes = plan_advice(plan);
    return std::any_of(notes.begin(), notes.end(), [](const std::string& n) { return n.find("longer than model.max_position_embeddings") != std::string::npos; });
  };
  CHECK_FALSE(said());
  plan.model.max_position_embeddings = plan.training.seq_length - 1;
  CHECK(said());
  plan.model.position_embedding = PositionEmbedding::learned;
  CHECK_FALSE(said());
}

TEST_CASE("recomputed layers are told to save less memory where weight gradients are delayed") {
  const auto told_of = [](const std::string& schedule, Recompute recompute) {
    Plan plan = parse_plan(with("parallel", "\"schedule\": \"" + schedule + "\""), "plan.json");
    plan.training.recompute = recompute;
    const std::vector<std::string> notes = plan_advice(plan);
    return std::any_of(notes.begin(), notes.end(), [](const std::string& n) { return n.starts_with("recomputing layers saves less memory in "); });
  };
  CHECK(told_of("zb-h1", Recompute::full));
  CHECK(told_of("zb-v", Recompute::full));
  CHECK_FALSE(told_of("zb-h1", Recompute::none));
  CHECK_FALSE(told_of("1f1b", Recompute::full));
}

TEST_CASE("offloaded states are told to be updated on the device") {
  CHECK(told("offloaded states ", "\"offload\": {\"optimizer\": true}") == 1);
  CHECK(told("offloaded states ", "\"zero_stage\": 1") == 0);
}

TEST_CASE("an order of ranks in which experts' ranks would be no neighbours is told to have no effect on them") {
  const auto told_of = [](std::int64_t experts, const std::string& order) {
    Plan plan = parse_plan(bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8, \"rank_order\": \"" + order + "\""), "plan.json");
    plan.model.moe.num_experts = experts, plan.parallel.expert = experts > 0 ? 4 : 1;
    const std::vector<std::string> notes = plan_advice(plan);
    return std::any_of(notes.begin(), notes.end(), [](const std::string& n) { return n.starts_with("the place of ep in parallel.rank_order"); });
  };
  CHECK(told_of(8, "tp-cp-dp-ep-pp"));
  CHECK_FALSE(told_of(8, "tp-cp-ep-pp-dp"));
  CHECK_FALSE(told_of(0, "tp-cp-dp-ep-pp"));
}

TEST_CASE("A plan of experts that is too large is told to spread them as long as they can be") {
  const std::string remedy = "spread the experts over more ranks (parallel.expert)";
  const auto told_of = [&](std::int64_t experts, std::int64_t expert) {
    Plan plan = parse_plan(bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8"), "plan.json");
    plan.model.moe.num_experts = experts, plan.parallel.expert = expert;
    return memory_advice(plan).find(remedy) != std::string::npos;
  };
  CHECK(told_of(16, 2));
  CHECK_FALSE(told_of(16, 8));  // eight ranks
  CHECK_FALSE(told_of(4, 4));   // four experts
  CHECK_FALSE(told_of(0, 1));
}

TEST_CASE("facts of kernels, collectives and types that a plan does not have are not in use") {
  const auto plan = [](const std::string& training) {
    return parse_plan(with("training", training), "plan.json");
  };
  const Plan flash = plan(R"("flash_attention": true, "attention_kernel": "triton")"), scores = plan(R"("flash_attention": false)");
  CHECK_FALSE(is_unused_fact("h100.json: triton_attention.fill", flash));
  CHECK_FALSE(is_unused_fact("flash_attention.fill", flash));
  CHECK_FALSE(is_unused_fact("h100.json: matmul.tile", scores));
  for (const char* field : {"flash1_attention.fill", "not verified: h100.json: tuned_attention.fill (one)", "own_attention.fill"})
    CHECK(is_unused_fact(field, flash));
  for (const char* field : {"triton_attention.fill", "flash_attention.fill"}) CHECK(is_unused_fact(field, scores));
  const Plan alone = parse_plan(bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 1", bent("\"devices\": 8", "\"devices\": 1")), "plan.json");
  CHECK(is_unused_fact("b200.json: communication.overhead_s", alone));
  CHECK_FALSE(is_unused_fact("b200.json: communication.overhead_s", flash));
  CHECK(is_unused_fact("gb200.json: matmul.fp4_ceiling (4-bit products)", flash));
}
