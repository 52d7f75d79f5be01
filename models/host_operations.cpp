#include "models/host_operations.hpp"

#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/plan.hpp"
#include "models/stack_conditions.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::int64_t kMost = 1000;  ///< of a task

template <std::size_t... kind>
std::set<std::string_view> kinds(std::index_sequence<kind...>) {
  return {kind_name(Op(std::in_place_index<kind>))...};
}

[[noreturn]] void refuse(const std::string& path, const json& value, const std::string& reason) {
  throw ConfigError(Problem{path, "host_operations", value_text(value), reason,
                            "write {\"otherwise\": 3, \"tasks\": {\"matmul\": 8}, \"per_parameter\": optional, \"when\": optional, "
                            "\"source\": ..., \"verified\": ...}"});
}

std::int64_t count(const json& value, const std::string& path) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > kMost)
    refuse(path, value, "is no whole number from 1 to " + std::to_string(kMost));
  return value.get<std::int64_t>();
}

std::map<std::string, std::int64_t, std::less<>> counts(const json& entry, const char* key, const std::string& path) {
  static const std::set<std::string_view> known = kinds(std::make_index_sequence<kOpKinds>());
  std::map<std::string, std::int64_t, std::less<>> out;
  if (!entry.contains(key)) return out;
  if (!entry[key].is_object()) refuse(path, entry[key], std::string(key) + " is no object");
  for (const auto& [kind, value] : entry[key].items()) {
    if (!known.contains(kind)) refuse(path, kind, "is no kind of task");
    out[kind] = count(value, path);
  }
  return out;
}

HostOperations read(const json& entry, const std::string& path) {
  static const std::set<std::string_view> keys{"otherwise", "tasks", "per_parameter", "when", "source", "verified"};
  if (!entry.is_object() || !entry.contains("otherwise") || !entry.contains("source") || !entry.contains("verified"))
    refuse(path, entry, "an entry lacks otherwise, source or verified");
  for (const auto& [key, value] : entry.items())
    if (!keys.contains(key)) refuse(path, key, "is no key of an entry");
  return {count(entry["otherwise"], path), counts(entry, "tasks", path), counts(entry, "per_parameter", path)};
}

}  // namespace

std::int64_t HostOperations::of(const Op& op, std::int64_t parameters) const {
  const auto own = tasks.find(kind_name(op)), more = per_parameter.find(kind_name(op));
  return (own == tasks.end() ? otherwise : own->second) + (more == per_parameter.end() ? 0 : more->second * parameters);
}

HostOperations stack_host_operations(const Plan& plan) {
  const std::string path = find_preset("models/stacks", plan.stack);
  if (path.empty()) return {};  // the stack is refused by its own field
  const json stack = read_json(path);
  if (!stack.is_object() || !stack.contains("host_operations")) return {};
  if (!stack["host_operations"].is_array()) refuse(path, stack["host_operations"], "is not a list");
  for (const json& entry : stack["host_operations"]) {
    const HostOperations found = read(entry, path);
    if (const std::string wrong = condition_defect(entry.value("when", json::object())); !wrong.empty()) refuse(path, entry["when"], wrong);
    if (stack_entry_applies(entry, plan)) return found;
  }
  refuse(path, stack["host_operations"], "has no entry for this plan: end the list with one without \"when\"");
}

}  // namespace tandem
