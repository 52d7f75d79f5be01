#include "models/arguments/table.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "models/base/error.hpp"
#include "models/fields/plan_fields.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

std::set<std::string> names_of(const arguments::Table& table) {
  std::set<std::string> out;
  for (const auto& [option, argument] : table.options->items()) out.insert(argument[0].get<std::string>());
  return out;
}

/// Names of a launcher, of older code, that only a printed block has, or of sections without a list of fields.
const std::set<std::string> kOthers = {"activation_checkpointing", "bfloat16.enabled", "curriculum_learning.enabled", "data_efficiency.enabled",
                                       "nnodes", "nproc_per_node", "world_size", "virtual_pipeline_model_parallel_size", "fp8_hybrid", "fp8_e4m3", "cpu_offloading"};

bool is_known(const std::set<std::string>& known, const std::string& name) {
  return known.contains(name) || kOthers.contains(name) || name.starts_with("optimizer.params.") || name.starts_with("scheduler.params.");
}

}  // namespace

TEST_CASE("every name that a table reads is an argument of its framework") {
  for (const std::string& framework : arguments::known_frameworks()) {
    const arguments::Table table = arguments::read_table(framework);
    const std::set<std::string> known = names_of(table);
    const std::string text = (*table.document)["facts"].dump() + (*table.document)["plan"].dump() + (*table.document)["features"].dump();
    const std::regex field("\\$([A-Za-z0-9_.]+)");
    for (auto it = std::sregex_iterator(text.begin(), text.end(), field); it != std::sregex_iterator(); ++it) {
      CAPTURE(framework, (*it)[1].str());
      CHECK(is_known(known, (*it)[1].str()));
    }
  }
}

TEST_CASE("every option that is exported, and every argument that is ignored, is one of the framework") {
  for (const std::string& framework : arguments::known_frameworks()) {
    const arguments::Table table = arguments::read_table(framework);
    for (const json& row : (*table.document)["export"]["options"]) {
      CAPTURE(row.dump());
      const auto option = row[0].get<std::string>();
      CHECK((table.reads_json() ? is_known(names_of(table), option) : table.options->contains(option.substr(2))));
    }
    const std::set<std::string> known = names_of(table);
    for (const auto& [pattern, why] : (*table.document)["ignored"].items()) {
      const std::string reason = why.get<std::string>();
      if (reason == "the launcher" || reason == "told" || reason.starts_with("older: ")) continue;
      CAPTURE(pattern);
      CHECK(std::any_of(known.begin(), known.end(), [&, &p = pattern](const std::string& name) {
        return arguments::covers(p, name);
      }));
    }
  }
}

TEST_CASE("every field that a table says is a plan's") {
  for (const std::string& framework : arguments::known_frameworks()) {
    const arguments::Table table = arguments::read_table(framework);
    for (const auto& [path, expression] : (*table.document)["plan"].items()) {
      CAPTURE(path);
      CHECK(find_field(path) != nullptr);
    }
  }
}

TEST_CASE("an unknown framework is refused with the known ones") {
  try {
    arguments::read_table("megatron");
    FAIL("not refused");
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().message().find("known are deepspeed and megatron-core") != std::string::npos);
  }
}
