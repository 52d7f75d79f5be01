#include "models/arguments/value_kinds.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/arguments/unread_arguments.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

/// A file with one field.
json with(const std::string& name, const json& value) {
  std::string place = "/" + name;
  std::replace(place.begin(), place.end(), '.', '/');
  json out = json::object();
  out[json::json_pointer(place)] = value;
  return out;
}

/// What is refused of one field; empty if it is read.
std::string refused(const arguments::Table& table, const std::string& name, const json& value) {
  json values = with(name, value);
  try {
    arguments::require_kinds(table, values, {}, "run");
  } catch (const ConfigError& e) {
    return e.problems().front().message();
  }
  return "";
}

bool has(const json& kinds, const char* kind) { return std::find(kinds.begin(), kinds.end(), json(kind)) != kinds.end(); }

bool is_number_or_switch(const json& value) { return value.is_number() || value.is_boolean(); }

/// Fields whose default is a number and that may be words: an expression of Python, "1:4", "bf16-mixed".
const std::set<std::string> kWordsToo = {"moe_layer_freq", "nnodes", "trainer.precision"};

}  // namespace

TEST_CASE("every table refuses an unknown word in every field that it reads and whose kinds are known") {
  std::size_t checked = 0;
  for (const std::string& framework : arguments::known_frameworks()) {
    const arguments::Table table = arguments::read_table(framework);
    const json& kinds = (*table.document)["kinds"];
    for (const std::string& name : arguments::read_somewhere(table)) {
      if (!kinds.contains(name)) continue;
      CAPTURE(framework, name);
      CHECK(refused(table, name, "nope").find("is no value that the framework takes; write ") != std::string::npos);
      CHECK(refused(table, name, nullptr).empty());
      ++checked;
    }
  }
  CHECK(checked > 700);
}

TEST_CASE("every table takes values of each kind that a field has, and the default of the framework") {
  for (const std::string& framework : arguments::known_frameworks()) {
    const arguments::Table table = arguments::read_table(framework);
    const json& kinds = (*table.document)["kinds"];
    for (const std::string& name : arguments::read_somewhere(table)) {
      if (!kinds.contains(name)) continue;
      CAPTURE(framework, name);
      for (const json& kind : kinds[name]) {
        const auto word = kind.get<std::string>();
        if (word == "each") continue;
        const json value = word == "bool" ? json(true) : word == "int" ? json(2) : word == "float" ? json(0.5) : word == "list" ? json::array({1})
                           : word == "dict" ? json::object({{"a", 1}}) : json(word.substr(1, word.size() - 2));
        CHECK(refused(table, name, value).empty());
      }
      CHECK(refused(table, name, (*table.document)["defaults"].value(name, json())).empty());
    }
  }
}

TEST_CASE("every field whose default is a number or a switch has kinds") {
  for (const std::string& framework : arguments::known_frameworks()) {
    const arguments::Table table = arguments::read_table(framework);
    for (const std::string& name : arguments::read_somewhere(table)) {
      if (kWordsToo.contains(name) || !is_number_or_switch((*table.document)["defaults"].value(name, json()))) continue;
      CAPTURE(framework, name);
      CHECK((*table.document)["kinds"].contains(name));
    }
  }
}

TEST_CASE("a field that says \"auto\" is refused where nobody fills it in") {
  for (const std::string& framework : arguments::known_frameworks()) {
    const arguments::Table table = arguments::read_table(framework);
    const json& kinds = (*table.document)["kinds"];
    for (const auto& [name, some] : kinds.items()) {
      CAPTURE(framework, name);
      json values = json::object();
      if (has(some, "'auto'")) CHECK_NOTHROW(arguments::require_kinds(table, values, {name}, "run"));
      else CHECK_THROWS_AS(arguments::require_kinds(table, values, {name}, "run"), ConfigError);
    }
  }
  const arguments::Table nxdt = arguments::read_table("neuronx"), deepspeed = arguments::read_table("deepspeed");
  json values = json::object();
  CHECK_THROWS_AS(arguments::require_kinds(nxdt, values, {"distributed_strategy.pipeline_model_parallel_size"}, "run"), ConfigError);
  CHECK_NOTHROW(arguments::require_kinds(deepspeed, values, {"bf16.enabled", "train_batch_size"}, "run"));
  CHECK_THROWS_AS(arguments::require_kinds(deepspeed, values, {"zero_optimization.stage"}, "run"), ConfigError);
}

// megatron/training/arguments.py: moe_freq_type is a number or a list of 0 and 1; transformer_config.py names the types of balancing.
TEST_CASE("each value of a list has a kind of the option") {
  const arguments::Table table = arguments::read_table("megatron-core");
  CHECK(refused(table, "moe_layer_freq", 2).empty());
  CHECK(refused(table, "moe_layer_freq", {0, 1, 1}).empty());
  CHECK(refused(table, "moe_layer_freq", {0, "some"}).find("write a whole number, or several") != std::string::npos);
  CHECK(refused(table, "moe_router_load_balancing_type", {"aux_loss", "global_aux_loss"}).empty());
  CHECK_FALSE(refused(table, "moe_router_load_balancing_type", {"aux_loss", "other"}).empty());
  CHECK(refused(table, "rampup_batch_size", {64, 64, 100000}).empty());
}

TEST_CASE("a number that a file has as a text is a number") {
  const arguments::Table table = arguments::read_table("axolotl");
  json values = {{"sequence_len", "4096"}, {"learning_rate", "2e-5"}, {"bf16", "auto"}, {"sample_packing", "yes"}};
  arguments::require_kinds(table, values, {}, "run.yaml");
  CHECK(values["sequence_len"] == 4096);
  CHECK(values["learning_rate"] == 2e-5);
  CHECK(refused(table, "bf16", "x").find("bf16 = \"x\": is no value that the framework takes; write true or false or 'auto'") != std::string::npos);
}
