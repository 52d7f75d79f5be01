#include "models/stack/host_operations.hpp"

#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/plan/plan.hpp"
#include "models/stack/stack_conditions.hpp"

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
                            "write {\"otherwise\": 3, \"tasks\": {\"matmul\": 8}, \"per_parameter\": optional, \"update_recorded\": optional, \"more\": optional, "
                            "\"when\": optional, \"source\": ..., \"verified\": ...}"});
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

using Keys = std::set<std::string_view>;

/// Throws unless an object has all of `needed`, besides them only `optional` keys, and a `when` without a defect.
void check_entry(const json& entry, const Keys& needed, const Keys& optional, const std::string& lacks, const std::string& path) {
  if (!entry.is_object()) refuse(path, entry, lacks);
  for (const std::string_view key : needed)
    if (!entry.contains(key)) refuse(path, entry, lacks);
  for (const auto& [key, value] : entry.items())
    if (!needed.contains(key) && !optional.contains(key)) refuse(path, key, "is no key of an entry");
  const std::string wrong = condition_defect(entry.value("when", json::object()));
  if (!wrong.empty()) refuse(path, entry["when"], wrong);
}

/// What an entry's `more` adds for this plan.
void add_more(HostOperations& all, const json& entry, const Plan& plan, const std::string& path) {
  if (!entry.contains("more")) return;
  if (!entry["more"].is_array()) refuse(path, entry["more"], "more is no list");
  for (const json& more : entry["more"]) {
    check_entry(more, {"tasks", "source", "verified"}, {"when"}, "more lacks tasks, source or verified", path);
    const auto extra = counts(more, "tasks", path);
    if (!stack_entry_applies(more, plan)) continue;
    for (const auto& [kind, n] : extra) all.tasks.try_emplace(kind, all.otherwise).first->second += n;
  }
}

HostOperations read(const json& entry, const Plan& plan, const std::string& path) {
  check_entry(entry, {"otherwise", "source", "verified"}, {"tasks", "per_parameter", "update_recorded", "more", "when"},
              "an entry lacks otherwise, source or verified", path);
  if (entry.contains("update_recorded") && !entry["update_recorded"].is_boolean())
    refuse(path, entry["update_recorded"], "update_recorded is neither true nor false");
  HostOperations all{count(entry["otherwise"], path), counts(entry, "tasks", path), counts(entry, "per_parameter", path),
                     entry.value("update_recorded", false)};
  add_more(all, entry, plan, path);
  return all;
}

}  // namespace

std::int64_t HostOperations::of(const Op& op, std::int64_t parameters) const {
  const auto own = tasks.find(kind_name(op)), more = per_parameter.find(kind_name(op));
  return (own == tasks.end() ? otherwise : own->second) + (more == per_parameter.end() ? 0 : more->second * parameters);
}

HostOperations stack_host_operations(const Plan& plan) {
  const std::string path = find_preset("models/stacks", plan.stack);
  if (path.empty()) return {};  // the stack is refused by its own field
  const auto held = read_stack(path);
  const json& stack = *held;
  if (!stack.is_object() || !stack.contains("host_operations")) return {};
  if (!stack["host_operations"].is_array()) refuse(path, stack["host_operations"], "is not a list");
  for (const json& entry : stack["host_operations"]) {
    const HostOperations found = read(entry, plan, path);
    if (stack_entry_applies(entry, plan)) return found;
  }
  refuse(path, stack["host_operations"], "has no entry for this plan: end the list with one without \"when\"");
}

}  // namespace tandem
