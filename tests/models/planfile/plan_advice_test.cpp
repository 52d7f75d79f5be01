// Notes about plans that can run, and could be better.

#include "models/planfile/plan_advice.hpp"

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("ZB-H2 is told that a global norm keeps its bubble") {
  const auto told = [](const std::string& members) {
    int times = 0;
    for (const std::string& note : plan_advice(parse_plan(with("parallel", members), "plan.json"))) times += note.starts_with("zb-h2 ");
    return times;
  };
  CHECK(told("\"schedule\": \"zb-h2\"") == 1);
  CHECK(told("\"schedule\": \"zb-h2\", \"optimizer_sync\": \"post_validated\"") == 0);
  CHECK(told("\"schedule\": \"zb-h1\"") == 0);
}
