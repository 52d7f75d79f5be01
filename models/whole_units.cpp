#include "models/whole_units.hpp"

#include <string>

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/plan.hpp"
#include "models/stack_conditions.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kKey = "whole_between_micro_batches";

[[noreturn]] void refuse(const std::string& path, const json& value, const std::string& reason) {
  throw ConfigError(
      Problem{path, kKey, value_text(value), reason, R"(write [{"when": optional, "source": ..., "verified": ...}], or leave it out)"});
}

void check(const json& entry, const std::string& path) {
  for (const char* key : {"source", "verified"})
    if (!entry.is_object() || !entry.contains(key)) refuse(path, entry, std::string("an entry lacks ") + key);
  const std::string wrong = condition_defect(entry.value("when", json::object()));
  if (!wrong.empty()) refuse(path, entry["when"], wrong);
}

/// Whether there is anything to say: weights in the host's memory come for every micro-batch.
bool is_asked(const ParallelSpec& q) { return q.pipeline > 1 && q.zero_stage > 1 && !q.offload.parameters; }

}  // namespace

bool whole_between_micro_batches(const Plan& plan) {
  const std::string path = find_preset("models/stacks", plan.stack);
  if (path.empty() || !is_asked(plan.parallel)) return false;
  const auto held = read_stack(path);
  const json& stack = *held;
  if (!stack.is_object() || !stack.contains(kKey)) return false;
  if (!stack[kKey].is_array()) refuse(path, stack[kKey], "is not a list");
  bool found = false;
  for (const json& entry : stack[kKey]) {
    check(entry, path);
    found |= stack_entry_applies(entry, plan);
  }
  return found;
}

}  // namespace tandem
