#include "reports/compare/plan_differences.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "models/base/json.hpp"

namespace tandem {

namespace {

using nlohmann::json;

json plan_of(const SavedTimeline& t) {
  json plan = json::parse(t.plan_json, nullptr, false);
  return plan.is_object() ? plan : json::object();
}

/// The stack of a saved plan ("tandem@2026-11"); null if it names none.
json stack_of(const json& plan) {
  const json stack = plan.value("stack", json());
  if (!stack.is_object() || !stack.value("name", json()).is_string()) return nullptr;
  const json as_of = stack.value("as_of", json());
  return stack["name"].get<std::string>() + (as_of.is_string() ? "@" + as_of.get<std::string>() : "");
}

/// The parts of a plan that decide its tasks and their times.
json deciding(const json& plan) {
  json kept{{"stack", stack_of(plan)}};
  for (const char* part : {"model", "parallel", "training"}) {
    kept[part] = plan.value(part, json::object());
    if (kept[part].is_object())
      for (const char* other : {"name", "notes", "preset", "steps", "decay_over"}) kept[part].erase(other);
  }
  const json cluster = plan.value("cluster", json::object());
  for (const char* key : {"preset", "devices"})
    if (cluster.is_object() && cluster.contains(key)) kept["cluster"][key] = cluster.at(key);
  return kept;
}

std::string shown(const json& value) { return value.is_null() ? "" : value_text(value); }

void collect(const json& first, const json& second, const std::string& path, std::vector<PlanDifference>& out) {
  if (first == second) return;
  if (!first.is_object() || !second.is_object()) return out.push_back({path, shown(first), shown(second)});
  std::set<std::string> keys;
  for (const json* plan : {&first, &second})
    for (const auto& [key, value] : plan->items()) keys.insert(key);
  for (const std::string& key : keys)
    collect(first.value(key, json()), second.value(key, json()), path.empty() ? key : path + "." + key, out);
}

bool is_one_of(const std::string& field, std::initializer_list<std::string_view> fields) {
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

}  // namespace

std::vector<PlanDifference> plan_differences(const SavedTimeline& first, const SavedTimeline& second) {
  std::vector<PlanDifference> out;
  collect(deciding(plan_of(first)), deciding(plan_of(second)), "", out);
  return out;
}

bool changes_work(const PlanDifference& d) {
  // Rows that pad the same vocabulary change no result. Their default follows from the tensor degree.
  if (d.field == "model.pad_vocab_to") return false;
  return d.field.starts_with("model") || d.field.starts_with("training.batch_rampup") ||
         is_one_of(d.field, {"training", "training.global_batch_size", "training.seq_length", "training.decoder_seq_length"});
}

bool same_places(const std::vector<PlanDifference>& differences) {
  return std::none_of(differences.begin(), differences.end(), [](const PlanDifference& d) {
    return is_one_of(d.field, {"parallel", "parallel.tensor", "parallel.pipeline", "parallel.data", "parallel.context", "parallel.expert",
                               "parallel.rank_order", "parallel.virtual_pipeline", "parallel.pipeline_split", "training.micro_batch_size"});
  });
}

bool same_stages(const std::vector<PlanDifference>& differences) {
  return std::none_of(differences.begin(), differences.end(), [](const PlanDifference& d) {
    return is_one_of(d.field, {"parallel", "parallel.pipeline", "parallel.virtual_pipeline", "parallel.pipeline_split"});
  });
}

std::string twin_text(const SavedTimeline& first, const SavedTimeline& second) {
  const json a = stack_of(plan_of(first)), b = stack_of(plan_of(second));
  if (a == b || !a.is_string() || !b.is_string()) return "";
  return "the first is of stack " + a.get<std::string>() + ", the second of " + b.get<std::string>() +
         ": make the twin with tandem simulate PLAN --stack " + b.get<std::string>() + " --timeline FILE";
}

}  // namespace tandem
