// A boolean field of `parallel` changes no default of another field, but those that its stack's rules make depend on it.

#include <algorithm>

#include "models/stack/dependent_defaults.hpp"
#include "tests/properties/findings.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

using nlohmann::json;

constexpr int kLeast = 4;  ///< legal changes a plan, on average: stacks and layouts forbid some of the ten

/// Paths of all boolean fields of `parallel`, also those of nested objects.
std::vector<json::json_pointer> booleans(const json& whole) {
  std::vector<json::json_pointer> out;
  const json flat = whole.at("parallel").flatten();
  for (const auto& [path, value] : flat.items())
    if (value.is_boolean()) out.emplace_back("/parallel" + path);
  return out;
}

/// The field, and those whose defaults the stack's rules make depend on it.
std::set<std::string> allowed(const StackPlan& of, const json::json_pointer& path) {
  const auto with = [](std::string text, char from, char to) { return std::replace(text.begin(), text.end(), from, to), text; };
  std::set<std::string> out{path.to_string()};
  for (const std::string& field : dependent_defaults(of.plan.stack.name, with(path.to_string().substr(1), '/', '.')))
    out.insert("/" + with(field, '.', '/'));
  return out;
}

void toggle(const StackPlan& of, Findings& findings) {
  const json whole = json::parse(to_json(of.plan, -1));
  for (const json::json_pointer& path : booleans(whole)) {
    json changed = of.document;
    changed[path] = !whole.at(path).get<bool>();
    if (!legal(changed)) continue;
    findings.compare_defaults(of, of.document, changed, path.to_string() + " " + changed[path].dump(), allowed(of, path));
  }
}

}  // namespace

TEST_CASE("a boolean of parallel changes no default of another field") {
  check_plans(kPlans, kLeast * kPlans, toggle);
}

TEST_CASE("a boolean of parallel changes no default of another field of many plans", "[.nightly]") {
  check_plans(kNightlyPlans, kLeast * kNightlyPlans, toggle);
}
