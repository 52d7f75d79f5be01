#include "models/arguments/table.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/fields/plan_fields.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

/// A table as it stands in its file, without that of its base.
json own_table(const std::string& framework) { return read_json(find_preset(arguments::kFolder, framework)); }

/// Arguments of the framework's own parser, and those that its table adds with a default.
std::set<std::string> names_of(const arguments::Table& table, const json& own) {
  std::set<std::string> out;
  const json added = own.value("defaults", json::object());
  for (const auto& [name, value] : added.items()) out.insert(name);
  for (const json& where : table.document->value("configuration", json::array())) {
    const arguments::Table file = arguments::read_table(where["framework"].get<std::string>());
    for (const auto& [name, argument] : file.options->items()) out.insert(where["as"].get<std::string>() + "." + name);
  }
  for (const auto& [option, argument] : table.options->items()) out.insert(argument[0].get<std::string>());
  return out;
}

/// Names of a launcher, of older code, that only a printed block has, or of sections without a list of fields.
const std::set<std::string> kOthers = {"activation_checkpointing", "bfloat16.enabled", "curriculum_learning.enabled", "data_efficiency.enabled",
                                       "zero_optimization.max_group_size",
                                       "world_size", "nnodes", "nproc_per_node", "np", "ntasks", "ntasks_per_node", "nodes",
                                       "num_nodes", "num_gpus", "program", "virtual_pipeline_model_parallel_size", "fp8_hybrid", "fp8_e4m3", "cpu_offloading", "mixed_precision",
                                       "rerun_state_machine._target_", "rerun_state_machine.check_for_nan_in_loss"};

bool is_known(const std::set<std::string>& known, std::string name) {
  if (name.starts_with("ds.") && !known.contains(name)) name = name.substr(3);
  if (name.starts_with("env.")) return true;  // variables of the environment have no list
  return known.contains(name) || kOthers.contains(name) || name.starts_with("optimizer.params.") || name.starts_with("scheduler.params.");
}

}  // namespace

TEST_CASE("every name that a table reads is an argument of its framework") {
  for (const std::string& framework : arguments::known_frameworks()) {
    const arguments::Table table = arguments::read_table(framework);
    const json own = own_table(framework);
    const std::set<std::string> known = names_of(table, own);
    const std::string text = own["facts"].dump() + own["plan"].dump() + own["features"].dump() + own.value("dated", json()).dump();
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
    const json own = own_table(framework);
    const std::set<std::string> known = names_of(table, own);
    for (const json& row : table.writes() ? own["export"]["options"] : json::array()) {
      CAPTURE(row.dump());
      const auto option = row[0].get<std::string>();
      CHECK((table.reads_file() ? is_known(known, option) : table.options->contains(option.substr(2))));
    }
    for (const auto& [pattern, why] : own["ignored"].items()) {
      const std::string reason = why.get<std::string>();
      if (reason == "the launcher" || reason == "told" || reason.starts_with("older: ") || reason.starts_with("others: ")) continue;
      CAPTURE(pattern);
      CHECK(std::any_of(known.begin(), known.end(), [&, &p = pattern](const std::string& name) {
        return arguments::covers(p, name);
      }));
    }
  }
}

TEST_CASE("options of numbers, lists and texts need a value, switches and lists of any length do not") {
  for (const char* framework : {"megatron-core", "megatron-deepspeed", "neuron-megatron"}) {
    const arguments::Table table = arguments::read_table(framework);
    CAPTURE(framework);
    for (const char* option : {"num-layers", "hidden-size", "adam-beta1", "split", "lr"}) CHECK(table.argument(option).needs_value);
    for (const char* option : {"bf16", "no-load-optim", "use-cpu-initialization", "data-path", "an-option-of-a-launcher"})
      CHECK_FALSE(table.argument(option).needs_value);
  }
}

TEST_CASE("a switch of one framework that needs a value in another chooses neither") {
  // Megatron-LM's --profile is a switch; Megatron-DeepSpeed's has a value.
  const std::string text = "torchrun pretrain_gpt.py --num-layers 2 --profile --profile-step-start 4";
  CHECK(arguments::table_of_options(text, "run.args").stack == "megatron-core");
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
    CHECK(e.problems().front().message().find("known are accelerate, axolotl, deepspeed, deepspeed-bert, gpt-neox, llama-factory, megatron-bridge, megatron-core, megatron-deepspeed, ms-swift, nanotron, nemo, neuron-megatron, neuronx, pai-megatron-patch, torchtitan, torchtitan-2026, torchtune, transformers, trl and zero-bubble") != std::string::npos);
  }
}
