#include "models/stack/dependent_defaults.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/stack/stack_file.hpp"

namespace tandem {

std::set<std::string> dependent_defaults(const std::string& stack, const std::string& field) {
  const auto file = load_stack(stack);
  std::set<std::string> on{field}, out;
  const auto depends = [&](const DefaultEntry& entry) {
    const auto& conditions = entry.when->items();
    const auto in_set = [&](const auto& c) { return on.count(c.key()) != 0; };
    return on.count(entry.times) != 0 || std::any_of(conditions.begin(), conditions.end(), in_set);
  };
  for (bool more = true; more;) {
    more = false;
    for (const DefaultEntry& entry : file->defaults)
      if (out.count(entry.field) == 0 && depends(entry)) more = true, on.insert(entry.field), out.insert(entry.field);
  }
  return out;
}

}  // namespace tandem
