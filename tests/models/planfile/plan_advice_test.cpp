// Notes about plans that can run, and could be better.

#include "models/planfile/plan_advice.hpp"

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

TEST_CASE("ZB-H2 is told that a global norm keeps its bubble") {
  CHECK(told("zb-h2 ", "\"schedule\": \"zb-h2\"") == 1);
  CHECK(told("zb-h2 ", "\"schedule\": \"zb-h2\", \"optimizer_sync\": \"post_validated\"") == 0);
  CHECK(told("zb-h2 ", "\"schedule\": \"zb-h1\"") == 0);
}

TEST_CASE("offloaded states are told to be updated on the device") {
  CHECK(told("offloaded states ", "\"offload\": {\"optimizer\": true}") == 1);
  CHECK(told("offloaded states ", "\"zero_stage\": 1") == 0);
}
