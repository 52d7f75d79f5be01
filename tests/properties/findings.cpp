#include "tests/properties/findings.hpp"

#include <algorithm>
#include <cmath>

namespace tandem::tests {

namespace {

using nlohmann::json;

constexpr std::uint32_t kSeed = 20261123;

/// Every field of the completed plan, by JSON pointer.
json completed(const json& document) { return json::parse(to_json(parsed(document), -1)).flatten(); }

/// "field: before -> after" of every field that differs.
std::string differences(const json& before, const json& after, const std::set<std::string>& but) {
  json all = before;
  all.update(after);
  std::string out;
  for (const auto& [field, value] : all.items())
    if (const json a = before.value(field, json()), b = after.value(field, json()); !but.contains(field) && a != b)
      out += (out.empty() ? "" : ", ") + field + " " + a.dump() + " -> " + b.dump();
  return out;
}

/// Stack and machine of a plan, for messages.
std::string title(const StackPlan& of) {
  const auto text = [&](const char* field) { return of.document.at(json::json_pointer(field)).get<std::string>(); };
  return text("/stack") + " on " + text("/cluster/preset") + ", " + text("/model/family") + " in " + text("/training/precision");
}

}  // namespace

void Findings::judge(const StackPlan& of, const std::string& what, const std::function<std::string()>& difference) {
  ++checked_;
  try {
    const std::string found = difference();
    if (!found.empty()) broken_.push_back(title(of) + ": " + what + ": " + found + "\n    " + of.document.dump());
  } catch (const ConfigError& e) {
    broken_.push_back(title(of) + ": " + what + ": " + e.what());
  }
}

void Findings::compare(const StackPlan& of, const json& changed, const std::string& what, double growth) {
  judge(of, what, [&] {
    const double change = step_time_s(changed) / of.step_time_s - 1;
    return std::abs(change) <= kNear + growth ? "" : "step time " + std::to_string(100 * change) + " %";
  });
}

void Findings::compare_defaults(const StackPlan& of, const json& before, const json& changed, const std::string& what,
                                const std::set<std::string>& but) {
  judge(of, what, [&] { return differences(completed(before), completed(changed), but); });
}

void Findings::require_none(int least) const {
  constexpr std::size_t kShown = 20;
  std::string text = std::to_string(broken_.size()) + " of " + std::to_string(checked_) + " checks";
  for (std::size_t i = 0; i < std::min(kShown, broken_.size()); ++i) text += "\n" + broken_[i];
  INFO(text);
  CHECK(checked_ >= least);
  CHECK(broken_.empty());
}

void check_plans(int count, int least, const PlanCheck& check) {
  StackPlans plans(kSeed);
  Findings findings;
  for (int i = 0; i < count; ++i) check(plans.next(), findings);
  findings.require_none(least);
}

}  // namespace tandem::tests
