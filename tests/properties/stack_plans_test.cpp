#include <set>

#include "models/base/presets.hpp"
#include "tests/properties/findings.hpp"

using namespace tandem;
using namespace tandem::tests;

TEST_CASE("the random plans of the nightly properties have every stack and every cluster preset", "[.nightly]") {
  std::set<std::string> stacks, clusters;
  check_plans(kNightlyPlans, 0, [&](const StackPlan& plan, Findings&) {
    stacks.insert(plan.document.at("stack"));
    clusters.insert(plan.document.at("cluster").at("preset"));
  });
  CHECK(stacks.size() == preset_names("models/stacks").size());
  CHECK(clusters.size() == preset_names("topology/presets").size());
}
