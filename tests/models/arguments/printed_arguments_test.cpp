#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/base/json.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

/// The block that Megatron-LM prints, without arguments of its parser's defaults.
std::string block_of(const json& printed) {
  std::string out = "------------------------ arguments ------------------------\n";
  for (const auto& [name, value] : printed.items()) out += "  " + name + " .......... " + value.get<std::string>() + "\n";
  return out + "-------------------- end of arguments ---------------------\n";
}

/// Fields of a completed plan but those that two spellings say: words for people, a split of layers, shared experts.
json compared(const Plan& plan) {
  json out = json::parse(to_json(plan));
  for (const char* key : {"name", "notes", "stack", "cluster"}) out.erase(key);
  for (const char* key : {"name", "notes", "family"}) out["model"].erase(key);
  if (out["model"].contains("moe"))
    for (const char* key : {"num_shared_experts", "shared_ffn_hidden_size"}) out["model"]["moe"].erase(key);
  out["parallel"].erase("pipeline_split");
  return out;
}

}  // namespace

// tests/fixtures/megatron_printed.json is what Megatron-LM's own validate_args leaves of the commands that `export` wrote
TEST_CASE("arguments that Megatron-LM prints are the plan whose command started it") {
  for (const json& made : read_json(tests::source_dir() + "/tests/fixtures/megatron_printed.json").at("cases")) {
    CAPTURE(made.at("name").get<std::string>());
    const json& cluster = made.at("plan").at("cluster");
    const arguments::ImportedPlan read = arguments::import_arguments(block_of(made.at("printed")), "train.log", arguments::read_table("megatron-core"),
                                                                     {cluster.at("preset").get<std::string>(), 0});
    CHECK(read.unknown.empty());
    CHECK(arguments::refusals(read).empty());
    const Plan here = parse_plan(made.at("plan").dump(), "plan.json", PlanContext{generation_of});
    const Plan there = parse_plan(read.document->dump(), "again.json", PlanContext{generation_of});
    CHECK(here.layers_per_stage() == there.layers_per_stage());
    CHECK(json::diff(compared(here), compared(there)) == json::array());
  }
}
