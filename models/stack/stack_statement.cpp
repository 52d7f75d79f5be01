#include "models/stack/stack_statement.hpp"

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

/// A list of a stack's file.
struct Statement {
  const std::string& path;
  const char* key;

  [[noreturn]] void refuse(const json& value, const std::string& reason) const {
    throw ConfigError(
        Problem{path, key, value_text(value), reason, R"(write [{"when": optional, "source": ..., "verified": ...}], or leave it out)"});
  }

  void check(const json& entry) const {
    for (const char* part : {"source", "verified"})
      if (!entry.is_object() || !entry.contains(part)) refuse(entry, std::string("an entry lacks ") + part);
    const std::string wrong = condition_defect(entry.value("when", json::object()));
    if (!wrong.empty()) refuse(entry["when"], wrong);
  }
};

}  // namespace

bool stack_states(const Plan& plan, const char* key) {
  const std::string path = find_preset("models/stacks", plan.stack);
  if (path.empty()) return false;  // the stack is refused by its own field
  const auto held = read_stack(path);
  const json& stack = *held;
  if (!stack.is_object() || !stack.contains(key)) return false;
  const Statement statement{path, key};
  if (!stack[key].is_array()) statement.refuse(stack[key], "is not a list");
  bool found = false;
  for (const json& entry : stack[key]) {
    statement.check(entry);
    found |= stack_entry_applies(entry, plan);
  }
  return found;
}

}  // namespace tandem
