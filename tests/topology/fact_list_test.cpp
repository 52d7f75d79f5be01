#include "topology/fact_list.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/base/presets.hpp"
#include "tests/catch.hpp"
#include "topology/fact_reader.hpp"

using namespace tandem;

namespace {

const FactOrigin& find(const std::vector<FactOrigin>& facts, const std::string& part, const std::string& field) {
  const auto at = std::find_if(facts.begin(), facts.end(), [&](const FactOrigin& f) { return f.part == part && f.field == field; });
  REQUIRE(at != facts.end());
  return *at;
}

}  // namespace

TEST_CASE("a cluster's numbers are listed part by part with value, file and source") {
  const auto facts = facts_of("dgx-a100-80gb");
  const FactOrigin& memory = find(facts, "device", "memory_bytes");
  CHECK(memory.value == "85899345920");
  CHECK(memory.file == "presets/devices/a100-sxm4-80gb.json");
  CHECK(memory.sources == std::vector<std::string>{"llman", "stas_acc"});
  CHECK(!source_text("stas_acc").empty());
  CHECK(source_text("nobody").empty());
  CHECK(memory.origin == "verified: llman and stas_acc");
  CHECK(find(facts, "device", "runtime_bytes").origin == "not verified: bigscience_prequel");
  CHECK(find(facts, "calibration", "memory_share").origin.substr(0, 10) == "fitted on ");
  CHECK(find(facts, "node", "scale_out.nics").value == "8");
  CHECK(find(facts, "cluster", "fabric.nodes_per_leaf").file == "presets/dgx-a100-80gb.json");
}

TEST_CASE("a fitted number that is a placeholder is not verified, in lists and in notes, and other fitted ones are") {
  CHECK(find(facts_of("dgx-b200"), "calibration", "communication.overhead_s").origin.starts_with("not verified: placeholder, "));
  CHECK(find(facts_of("dgx-h100"), "calibration", "communication.overhead_s").origin.starts_with("fitted on "));
  std::vector<std::string> unverified;
  const auto facts = nlohmann::json::parse(R"({"a": {"value": 1, "fitted_on": "x", "placeholder": true}, "b": {"value": 1, "fitted_on": "x"},
                                               "c": {"value": 1, "fitted_on": "x", "placeholder": false}})");
  FactReader reader(facts, "own.json", "", unverified);
  for (const char* key : {"a", "b", "c"}) reader.fact(key);
  CHECK(unverified == std::vector<std::string>{"own.json: a"});
}

TEST_CASE("a note about an unverified fact tells files of one name in different folders apart") {
  const auto facts = nlohmann::json::parse(R"({"a": 1})");
  const auto told = [&](const std::string& file) {
    std::vector<std::string> unverified;
    FactReader reader(facts, file, "", unverified);
    reader.fact("a");
    reader.fact("a");
    REQUIRE(unverified.size() == 1);
    return unverified[0];
  };
  CHECK(told("/data/topology/presets/devices/acme.json") == "presets/devices/acme.json: a");
  CHECK(told("topology/presets/nodes/acme.json") == "presets/nodes/acme.json: a");
  CHECK(told("/topology/data/topology/calibration/acme.json") == "calibration/acme.json: a");
  CHECK(told("my_topology/acme.json") == "my_topology/acme.json: a");
  CHECK(told("./acme.json") == "./acme.json: a");
  CHECK(told_file("topology/measured/acme.json") == "measured/acme.json");
}

TEST_CASE("every number of every preset that ships has an origin, and an unknown preset is refused") {
  for (const std::string& name : preset_names("topology/presets"))
    for (const FactOrigin& f : facts_of(name)) CHECK((f.origin != "no source given" || name + f.part + "." + f.field == ""));
  CHECK_THROWS_AS(facts_of("dgx-a101"), ConfigError);
}
