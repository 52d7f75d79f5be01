#include "reports/trace/trace_rules.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "reports/trace/letter_case.hpp"

namespace tandem {

namespace {

using nlohmann::json;

/// True if a rule does not ask for this property.
bool holds(std::string_view text, const std::vector<std::string>& patterns) { return patterns.empty() || any_like(text, patterns); }

std::vector<TraceRule> rules_of(const json& table, const char* result) {
  std::vector<TraceRule> out;
  const auto names = [](const json& rule, const char* key) { return rule.value(key, std::vector<std::string>()); };
  for (const json& r : table)
    out.push_back({r.at(result).get<std::string>(), names(r, "names"), names(r, "under"), names(r, "block"), names(r, "task"),
                   names(r, "kind"), r.value("group", std::string())});
  return out;
}

}  // namespace

bool is_like(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = pattern.npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || lower(pattern[p]) == lower(text[t]))) {
      ++p, ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

bool any_like(std::string_view text, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return is_like(text, p); });
}

TraceRules TraceRules::load() {
  const std::string path = require_data_file("reports/trace", "classes.json");
  TraceRules out;
  try {
    const json table = read_json(path);
    out.kernels_ = rules_of(table.at("kernels"), "class");
    out.phases_ = rules_of(table.at("phases"), "phase");
    out.tasks_ = rules_of(table.at("tasks"), "class");
    out.collectives_ = rules_of(table.at("collectives"), "collective");
    out.groups_ = rules_of(table.at("groups"), "group");
    out.types_ = table.at("types").get<std::map<std::string, std::int64_t>>();
  } catch (const json::exception& e) {
    throw ConfigError(Problem{path, "", "", std::string("is no table of classes (") + e.what() + ")", "install Tandem's data again"});
  }
  return out;
}

std::string TraceRules::task_class(const SavedTask& task) const {
  for (const TraceRule& r : tasks_)
    if (holds(task.block, r.block) && holds(task.task, r.task) && holds(task.kind, r.kind)) return r.result;
  return kUnknownClass;
}

std::string TraceRules::task_phase(const std::string& simulated, const std::string& cls) {
  if (simulated == "optimizer" || cls == "optimizer") return "optimizer";
  return simulated == "forward" || simulated == "gather" ? "forward" : "backward";
}

const TraceRule* TraceRules::collective(std::string_view name) const {
  const auto found =
      std::find_if(collectives_.begin(), collectives_.end(), [&](const TraceRule& r) { return any_like(name, r.names); });
  return found == collectives_.end() ? nullptr : &*found;
}

std::string TraceRules::group(std::string_view description) const {
  for (const TraceRule& r : groups_)
    if (any_like(description, r.names)) return r.result;
  return "";
}

std::int64_t TraceRules::bytes_of(const std::string& dtype) const {
  const auto found = types_.find(dtype);
  return found == types_.end() ? 0 : found->second;
}

}  // namespace tandem
