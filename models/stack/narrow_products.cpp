#include "models/stack/narrow_products.hpp"

#include <string>

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/plan/plan.hpp"
#include "models/stack/stack_conditions.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostCopies = 2, kMostShare = 1024;

[[noreturn]] void refuse(const std::string& path, const json& value, const std::string& reason) {
  throw ConfigError(Problem{path, "narrow_products", value_text(value), reason,
                            "write [{\"inputs\": true, \"attention_output\": \"both\", \"weight_copies\": 2, \"scale_block\": 0, \"when\": "
                            "optional, \"source\": ..., \"verified\": ...}]"});
}

std::int64_t whole(const json& entry, const char* key, std::int64_t most, const std::string& path) {
  const json& value = entry[key];
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > most)
    refuse(path, value, std::string(key) + " is no whole number from 0 to " + std::to_string(most));
  return value.get<std::int64_t>();
}

AttentionOutput attention_output(const json& value, const std::string& path) {
  if (value == "wide") return AttentionOutput::wide;
  if (value == "both") return AttentionOutput::both;
  refuse(path, value, "attention_output is neither wide nor both");
}

NarrowProducts read(const json& entry, const std::string& path) {
  for (const char* key : {"inputs", "attention_output", "weight_copies", "scale_block", "source", "verified"})
    if (!entry.is_object() || !entry.contains(key)) refuse(path, entry, std::string("an entry lacks ") + key);
  if (!entry["inputs"].is_boolean()) refuse(path, entry["inputs"], "inputs is neither true nor false");
  if (!entry["inputs"].get<bool>() && entry["attention_output"] == "both")
    refuse(path, entry["attention_output"], "a narrow copy of attention's output is an input in 8 bits, of which there are none");
  const std::string wrong = condition_defect(entry.value("when", json::object()));
  if (!wrong.empty()) refuse(path, entry["when"], wrong);
  return {entry["inputs"].get<bool>(), attention_output(entry["attention_output"], path),
          whole(entry, "weight_copies", kMostCopies, path), whole(entry, "scale_block", kMostShare, path)};
}

}  // namespace

NarrowProducts stack_narrow_products(const Plan& plan) {
  const std::string path = find_preset("models/stacks", plan.stack);
  if (path.empty() || bits(plan.training.dtypes.compute) > 8) return {};  // an unknown stack is refused by its own field
  const auto held = read_stack(path);
  const json& stack = *held;
  if (!stack.is_object() || !stack.contains("narrow_products")) return {};
  if (!stack["narrow_products"].is_array()) refuse(path, stack["narrow_products"], "is not a list");
  for (const json& entry : stack["narrow_products"]) {
    const NarrowProducts found = read(entry, path);
    if (stack_entry_applies(entry, plan)) return found;
  }
  return {};
}

}  // namespace tandem
