#include "models/stack/generation_defaults.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/fields/plan_fields.hpp"
#include "models/stack/condition.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kGeneration = "device.generation";
constexpr const char* kFusion = "training.fusion";

/// Whether the entry would hold if the device's generation were one that it names.
bool lacks_generation(const StackEntry& entry, const Plan& plan) {
  if (!entry.in_time(plan.stack.as_of) || !entry.when || !entry.when->contains(kGeneration)) return false;
  const auto& all = entry.when->items();
  return std::all_of(all.begin(), all.end(), [&](const auto& condition) {
    return satisfied(condition.value(), value_of(plan, condition.key()), plan) == (condition.key() != kGeneration);
  });
}

}  // namespace

std::vector<std::string> generation_defaults(const Plan& plan, const StackFile& stack) {
  std::vector<std::string> out;
  std::set<std::string> listed;
  const auto add = [&](const std::string& field, const json& value) {
    if (value != value_of(plan, field) && listed.insert(field).second) out.push_back(field + " " + value.dump());
  };
  for (const DefaultEntry& entry : stack.defaults)
    if (lacks_generation(entry, plan)) add(entry.field, entry.value_for(plan));
  const auto& filled = plan.stack.facts.defaults;
  if (std::none_of(filled.begin(), filled.end(), [](const StackDefault& d) { return d.field == kFusion; })) return out;
  for (const FusionEntry& entry : stack.fusion)
    if (lacks_generation(entry, plan)) add(kFusion, entry.set);
  return out;
}

}  // namespace tandem
