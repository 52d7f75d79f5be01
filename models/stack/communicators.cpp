#include "models/stack/communicators.hpp"

#include <array>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/plan/plan.hpp"
#include "models/stack/stack_conditions.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::int64_t kMost = 100;  ///< of a group
constexpr std::array kNamed{Group::tensor, Group::data, Group::pipeline, Group::model, Group::embedding, Group::world};

[[noreturn]] void refuse(const std::string& path, const json& value, const std::string& reason) {
  throw ConfigError(Problem{path, "communicators", value_text(value), reason,
                            "write [{\"group\": \"data\", \"count\": 2, \"when\": optional, \"source\": ..., \"verified\": ...}]"});
}

Group group_of(const json& entry, const std::string& path) {
  for (const Group g : kNamed)
    if (entry["group"] == std::string(name(g))) return g;
  refuse(path, entry["group"], "is none of tensor, data, pipeline, model, embedding and world");
}

Communicators read(const json& entry, const std::string& path) {
  for (const char* key : {"group", "count", "source", "verified"})
    if (!entry.is_object() || !entry.contains(key)) refuse(path, entry, std::string("an entry lacks ") + key);
  const json& count = entry["count"];
  if (!count.is_number_integer() || count.get<std::int64_t>() < 1 || count.get<std::int64_t>() > kMost)
    refuse(path, count, "is no whole number from 1 to " + std::to_string(kMost));
  const std::string wrong = condition_defect(entry.value("when", json::object()));
  if (!wrong.empty()) refuse(path, entry["when"], wrong);
  return {group_of(entry, path), count.get<std::int64_t>()};
}

}  // namespace

std::vector<Communicators> stack_communicators(const Plan& plan) {
  const std::string path = find_preset("models/stacks", plan.stack);
  if (path.empty()) return {};  // the stack is refused by its own field
  const auto held = read_stack(path);
  const json& stack = *held;
  if (!stack.is_object() || !stack.contains("communicators")) return {};
  if (!stack["communicators"].is_array()) refuse(path, stack["communicators"], "is not a list");
  std::vector<Communicators> out;
  for (const json& entry : stack["communicators"]) {
    const Communicators found = read(entry, path);
    if (stack_entry_applies(entry, plan)) out.push_back(found);
  }
  return out;
}

}  // namespace tandem
