#include <cstdlib>
#include <set>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "tests/properties/findings.hpp"
#include "tests/properties/own_presets.hpp"

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

TEST_CASE("presets under other names leave what TANDEM_PRESETS names where it is") {
  const char* given = std::getenv("TANDEM_PRESETS");
  const std::string before = given == nullptr ? "" : given;
  const TemporaryFolder theirs;
  std::filesystem::create_directories(theirs.path() / "topology/presets");
  nlohmann::json cluster = read_json(find_preset("topology/presets", "dgx-h100"));
  for (const std::string part : {"node", "device"}) cluster[part] = read_json(find_preset("topology/presets/" + part + "s", cluster[part].get<std::string>()));
  theirs.file("topology/presets/theirs.json", cluster.dump());
  setenv("TANDEM_PRESETS", theirs.path().c_str(), 1);
  {
    const OwnPresets own("theirs");
    CHECK_FALSE(find_preset("topology/presets", "own-cluster").empty());
    CHECK_FALSE(find_preset("topology/presets", "theirs").empty());
  }
  CHECK(std::string(std::getenv("TANDEM_PRESETS")) == theirs.path().string());
  if (given == nullptr) unsetenv("TANDEM_PRESETS");
  else setenv("TANDEM_PRESETS", before.c_str(), 1);
}
