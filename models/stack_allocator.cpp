#include "models/stack_allocator.hpp"

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/stack_conditions.hpp"

namespace tandem {

bool stack_allocator_caches(const std::string& stack) {
  const std::string path = find_preset("models/stacks", stack);
  if (path.empty()) return false;  // the stack is refused by its own field
  const auto held = read_stack(path);
  const nlohmann::json& file = *held;
  if (!file.is_object() || !file.contains("allocator")) return false;
  const nlohmann::json& found = file["allocator"];
  if (!found.is_object() || !found.contains("source") || !found.contains("verified") || found.value("kind", nlohmann::json()) != "caching")
    throw ConfigError(Problem{path, "allocator", value_text(found), "is no object with kind \"caching\", source and verified",
                              "write \"allocator\": {\"kind\": \"caching\", \"source\": ..., \"verified\": ...}, or leave it out"});
  return true;
}

}  // namespace tandem
