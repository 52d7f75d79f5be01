// Why a stack's default does not hold for a plan.

#include "models/stack/unmet_defaults.hpp"

#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "tests/odd_stack.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

/// A default of parallel.overlap_tensor_sum, and what is unmet of it in a plan of 2023-05 with tensor 2 and zero_stage 0.
std::vector<UnmetDefault> unmet(const std::string& frame, bool value = true) {
  Plan plan = parse_plan(kGoodPlan, "good.json");
  plan.parallel.tensor = 2, plan.parallel.zero_stage = 0, plan.parallel.overlap_tensor_sum = false;
  plan.training.recompute_modules = {"core_attention"};
  plan.cluster.generation = "blackwell";
  const std::string entry = R"([{"field": "parallel.overlap_tensor_sum", "value": )" + std::string(value ? "true" : "false") + frame +
                            R"(, "source": "the code", "verified": true}])";
  std::vector<UnmetDefault> out;
  tests::with_odd_stack("defaults", entry, [&] {
    plan.stack.name = "odd", plan.stack.as_of = {2023, 5};
    out = unmet_defaults(plan, "parallel.overlap_tensor_sum");
    CHECK(unmet_defaults(plan, "parallel.zero_stage").empty());
    return std::string();
  });
  return out;
}

std::vector<std::string> reasons(const std::string& frame) {
  const auto rules = unmet(frame);
  return rules.size() == 1 ? rules.front().unmet : std::vector<std::string>{};
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("each condition of a stack's default that a plan does not meet is named with the plan's value") {
  CHECK(reasons(R"(, "when": {"device.generation": {"allowed": ["ampere", "hopper"]}})") ==
        Texts{R"(device.generation is "blackwell", not "ampere" or "hopper")"});
  CHECK(reasons(R"(, "when": {"parallel.tensor": {"min": 4}, "parallel.zero_stage": {"max": 1}})") == Texts{"parallel.tensor is 2, below 4"});
  CHECK(reasons(R"(, "when": {"parallel.tensor": {"max": 1, "multiple_of": 3}})") ==
        Texts{"parallel.tensor is 2, above 1", "parallel.tensor is 2, no multiple of 3"});
  CHECK(reasons(R"(, "when": {"parallel.tensor": {"except": [2]}})") == Texts{"parallel.tensor is 2, one of the excepted"});
  CHECK(reasons(R"(, "when": {"training.recompute_modules": {"includes": ["moe", "norm"]}})") ==
        Texts{R"(training.recompute_modules is ["core_attention"], without "moe" or "norm")"});
  CHECK(reasons(R"(, "since": "2024-01")") == Texts{"stack.as_of is 2023-05, before 2024-01"});
  CHECK(reasons(R"(, "until": "2023-05")") == Texts{"stack.as_of is 2023-05, not before 2023-05"});
}

TEST_CASE("a default that holds, or would change nothing, is not told") {
  CHECK(unmet("").empty());
  CHECK(unmet(R"(, "since": "2024-01")", false).empty());
  const auto rule = unmet(R"(, "since": "2024-01")");
  REQUIRE(rule.size() == 1);
  CHECK((rule[0].value == "true" && rule[0].source == "the code"));
}
