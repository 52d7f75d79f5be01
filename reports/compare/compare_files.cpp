#include <algorithm>

#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "reports/compare/compare.hpp"

namespace tandem {

namespace {

/// The parts of a plan that decide its tasks; how long a run is and its learning rate decays does not.
nlohmann::json task_deciding(const std::string& plan_json) {
  nlohmann::json plan = nlohmann::json::parse(plan_json, nullptr, false);
  if (!plan.is_object()) return nullptr;
  nlohmann::json kept;
  for (const char* part : {"model", "parallel", "training"}) kept[part] = plan.value(part, nlohmann::json::object());
  for (auto& [part, fields] : kept.items())
    if (fields.is_object())
      for (const char* idle : {"name", "notes", "steps", "decay_over"}) fields.erase(idle);
  return kept;
}

/// The first field in which two plans differ, or empty.
std::string first_difference(const nlohmann::json& a, const nlohmann::json& b) {
  for (const auto& change : nlohmann::json::diff(a, b)) return change.at("path").get<std::string>().substr(1);
  return "";
}

/// A prediction is judged by a measurement, never the other way round.
void require_order(const SavedTimeline& first, const SavedTimeline& second, const std::string& path) {
  if (first.performer != Performer::executed || second.performer != Performer::simulated) return;
  throw ConfigError(Problem{path, "performer", "executed", "the second timeline is a simulated one",
                            "give the simulated timeline first, the executed one second"});
}

/// "tandem@2026-11" of a saved plan; empty where it says no stack.
std::string stack_of(const std::string& plan_json) {
  const nlohmann::json plan = nlohmann::json::parse(plan_json, nullptr, false);
  const nlohmann::json stack = plan.is_object() ? plan.value("stack", nlohmann::json()) : nlohmann::json();
  if (!stack.is_object() || !stack.contains("name")) return "";
  return stack["name"].get<std::string>() + (stack.contains("as_of") ? "@" + stack["as_of"].get<std::string>() : "");
}

/// The command that makes a simulated timeline under the stack of the other one; empty where both have one stack.
std::string twin(const SavedTimeline& first, const SavedTimeline& second) {
  const std::string of_first = stack_of(first.plan_json), of_second = stack_of(second.plan_json);
  if (of_first == of_second || of_first.empty() || of_second.empty()) return "";
  return "the first is of stack " + of_first + ", the second of " + of_second + ": make the twin with tandem simulate PLAN --stack " + of_second +
         " --timeline FILE";
}

/// What makes two plans one. A step from before the end of a batch ramp-up is of a plan with its own batch and no ramp-up.
std::string remedy(const std::string& field, const nlohmann::json& executed) {
  if (!field.starts_with("training.batch_rampup")) return "compare timelines of the same plan";
  return "the step that was kept has a batch of " + executed.at("training").value("global_batch_size", nlohmann::json()).dump() +
         ": keep one from after the ramp-up (train --timeline-step), or simulate the plan with that batch and no ramp-up";
}

void require_same_plan(const SavedTimeline& first, const SavedTimeline& second, const std::string& path) {
  const nlohmann::json own = task_deciding(second.plan_json);
  std::string field = first_difference(task_deciding(first.plan_json), own);
  if (field.empty()) return;
  std::replace(field.begin(), field.end(), '/', '.');
  const std::string other_stack = twin(first, second);
  throw ConfigError(Problem{path, field, "", "differs from the plan of the first timeline", other_stack.empty() ? remedy(field, own) : other_stack});
}

}  // namespace

void require_comparable(const SavedTimeline& first, const SavedTimeline& second, const std::string& first_path,
                        const std::string& second_path) {
  require_order(first, second, first_path);
  require_same_plan(first, second, second_path);
}

Comparison compare(const std::string& first_path, const std::string& second_path) {
  const SavedTimeline first = read_timeline(first_path);
  const SavedTimeline second = read_timeline(second_path);
  require_comparable(first, second, first_path, second_path);
  return compare(first, second);
}

}  // namespace tandem
