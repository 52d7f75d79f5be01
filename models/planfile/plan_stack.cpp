// Rule sets of frameworks: data in models/stacks/*.json, interpreted here. A rule is
//   {"field": F, <constraint>, "when": {F: <constraint>, ...}, "reason": R, "source": S, "remedy": optional}
// with one constraint of allowed, except, min, max, multiple_of (a number or a field). Fields are those of the plan
// file and the derived ones below.

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/planfile/plan_fields.hpp"
#include "models/planfile/plan_names.hpp"
#include "models/planfile/plan_steps.hpp"
#include "models/stack/cluster_kinship.hpp"
#include "models/stack/stack_conditions.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kConstraints{"allowed", "except", "min", "max", "multiple_of"};
constexpr std::int64_t kMostLaunch = 1000;  ///< host operations of a graph's launch
constexpr std::array<std::string_view, 5> kOtherKeys{"field", "when", "reason", "source", "remedy"};

bool is_constraint(std::string_view key) {
  return std::find(kConstraints.begin(), kConstraints.end(), key) != kConstraints.end();
}

struct Derived {
  std::string_view path;
  std::string_view blamed;  ///< the field of the file that a message names
  std::int64_t (*value)(const Plan&);
};

constexpr std::array kDerived{
    Derived{"derived.micro_batches", "training.global_batch_size", [](const Plan& p) { return p.micro_batches(); }},
    Derived{"derived.world_size", "cluster.devices", [](const Plan& p) { return p.world_size(); }},
    Derived{"derived.sequence_per_context_rank", "training.seq_length",
            [](const Plan& p) { return p.training.seq_length / p.parallel.context; }},
};

const Derived* find_derived(std::string_view path) {
  const auto found = std::find_if(kDerived.begin(), kDerived.end(), [&](const Derived& d) { return d.path == path; });
  return found == kDerived.end() ? nullptr : &*found;
}

bool known_field(const std::string& path) { return find_derived(path) != nullptr || find_field(path) != nullptr; }

json value_of(const Plan& plan, const std::string& path) {
  if (const Derived* d = find_derived(path)) return d->value(plan);
  return find_field(path)->write(plan);
}

std::int64_t divisor(const Plan& plan, const json& of) {
  return of.is_string() ? value_of(plan, of.get<std::string>()).get<std::int64_t>() : of.get<std::int64_t>();
}

bool contains(const json& list, const json& value) { return std::find(list.begin(), list.end(), value) != list.end(); }

/// Whether `value` obeys every constraint that stands in `rule`.
bool satisfied(const json& rule, const json& value, const Plan& plan) {
  if (rule.contains("allowed") && !contains(rule["allowed"], value)) return false;
  if (rule.contains("except") && contains(rule["except"], value)) return false;
  if (rule.contains("min") && value.get<double>() < rule["min"].get<double>()) return false;
  if (rule.contains("max") && value.get<double>() > rule["max"].get<double>()) return false;
  return !rule.contains("multiple_of") || value.get<std::int64_t>() % divisor(plan, rule["multiple_of"]) == 0;
}

}  // namespace

std::shared_ptr<const json> read_stack(const std::string& path) {
  struct Parsed {
    std::string path, text;
    std::shared_ptr<const json> stack;
  };
  thread_local Parsed last;
  std::string text = read_text(path);
  if (last.path != path || last.text != text) last = {path, text, std::make_shared<const json>(parse_json(text, path))};
  return last.stack;
}

namespace {

/// What a condition compares: of a cluster of one's own the preset that it counts as.
json compared(const Plan& plan, const std::string& field, const json& condition) {
  if (field == "cluster.preset")
    for (const char* key : {"allowed", "except"})
      if (condition.contains(key)) return counts_as(plan.cluster.preset, condition[key]);
  return value_of(plan, field);
}

}  // namespace

bool stack_entry_applies(const json& rule, const Plan& plan) {
  if (!rule.contains("when")) return true;
  for (const auto& [field, condition] : rule["when"].items()) {
    if (!satisfied(condition, compared(plan, field, condition), plan)) return false;
  }
  return true;
}

namespace {

/// What is wrong with the value of a constraint, "" if nothing.
std::string constraint_defect(std::string_view key, const json& value) {
  if (key == "min" || key == "max") return value.is_number() ? "" : std::string(key) + " must be a number";
  if (key != "multiple_of") return value.is_array() ? "" : std::string(key) + " must be a list";
  const bool number = value.is_number_integer() && value > 0, field = value.is_string() && known_field(value.get<std::string>());
  return number || field ? "" : "multiple_of must be a whole number above zero or a field of the plan";
}

}  // namespace

std::string condition_defect(const json& when) {
  if (!when.is_object()) return "\"when\" must be an object";
  for (const auto& [field, condition] : when.items()) {
    if (!known_field(field)) return "there is no field \"" + field + "\"";
    if (!condition.is_object()) return "the condition on " + field + " must be an object";
    for (const auto& [key, value] : condition.items()) {
      if (!is_constraint(key)) return "a condition has no key \"" + key + "\"";
      if (std::string wrong = constraint_defect(key, value); !wrong.empty()) return wrong;
    }
  }
  return {};
}

namespace {

std::string values_text(const json& list) {
  std::vector<std::string> words;
  for (const json& v : list) words.push_back(v.is_string() ? v.get<std::string>() : v.dump());
  return list_text(words, "or");
}

/// "use 1" where the largest allowed value is also the smallest the field can have.
std::string at_most(const json& rule) {
  const PlanField* field = find_field(rule["field"].get<std::string>());
  const bool only = field != nullptr && field->schema().value("minimum", json()) == rule["max"];
  return (only ? "use " : "use at most ") + rule["max"].dump();
}

std::string remedy_of(const json& rule, const Plan& plan) {
  if (rule.contains("remedy")) return rule["remedy"];
  if (rule.contains("allowed")) return "use " + values_text(rule["allowed"]);
  if (rule.contains("except")) return "use anything but " + values_text(rule["except"]);
  if (rule.contains("min")) return "use at least " + rule["min"].dump();
  if (rule.contains("max")) return at_most(rule);
  return "use a multiple of " + std::to_string(divisor(plan, rule["multiple_of"]));
}

/// What is wrong with a rule itself, "" if nothing.
std::string defect(const json& rule) {
  if (!rule.is_object()) return "a rule must be an object";
  const auto text = [&](const char* key) { return rule.contains(key) && rule[key].is_string(); };
  if (!text("field") || !known_field(rule["field"])) return "a rule needs a field of the plan";
  if (!text("reason") || !text("source")) return "a rule needs a reason and a source";
  if (rule.contains("remedy") && !text("remedy")) return "a remedy must be a text";
  int constraints = 0;
  for (const auto& [key, value] : rule.items()) {
    constraints += is_constraint(key) ? 1 : 0;
    if (!is_constraint(key) && std::find(kOtherKeys.begin(), kOtherKeys.end(), key) == kOtherKeys.end()) {
      return "a rule has no key \"" + key + "\"";
    }
    if (std::string wrong = is_constraint(key) ? constraint_defect(key, value) : ""; !wrong.empty()) return wrong;
  }
  if (constraints != 1) return "a rule needs one of allowed, except, min, max and multiple_of";
  return rule.contains("when") ? condition_defect(rule["when"]) : "";
}

/// The set that one entry of a stack's `fusion` names.
FusionSet set_of(const json& entry, const std::string& path) {
  const auto& names = Spelling<FusionSet>::names;
  const std::string known = list_text(std::vector<std::string>(names.begin(), names.end()), "or");
  const bool whole = entry.is_object() && entry.contains("source") && entry.contains("verified") && entry.contains("set") &&
                     entry["set"].is_string();
  const std::string wrong = !whole ? "an entry lacks its set, source or verified"
                            : entry.contains("when") ? condition_defect(entry["when"]) : "";
  if (!wrong.empty())
    throw ConfigError(Problem{path, "fusion", value_text(entry), wrong,
                              "write {\"set\": " + known + ", \"when\": optional, \"source\": ..., \"verified\": ...}"});
  const auto found = std::find(names.begin(), names.end(), entry["set"].get<std::string>());
  if (found != names.end()) return static_cast<FusionSet>(found - names.begin());
  throw ConfigError(Problem{path, "fusion.set", value_text(entry["set"]), "is no fusion set", "use " + known});
}

/// What is wrong with one entry of a stack's `defaults`, "" if nothing.
std::string default_defect(const json& entry) {
  constexpr std::array<std::string_view, 5> kKeys{"field", "value", "when", "source", "verified"};
  if (!entry.is_object() || !entry.contains("value") || !entry.contains("source") || !entry.contains("verified"))
    return "an entry lacks its field, value, source or verified";
  for (const auto& [key, value] : entry.items())
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) return "an entry has no key \"" + key + "\"";
  const PlanField* field = entry.contains("field") && entry["field"].is_string() ? find_field(entry["field"].get<std::string>()) : nullptr;
  if (field == nullptr || field->required) return "an entry needs a field of the plan that may be left out";
  Plan scratch;
  if (const auto refusal = field->read(entry["value"], scratch)) return "the value " + refusal->reason;
  return entry.contains("when") ? condition_defect(entry["when"]) : "";
}

json read_rules(const std::string& path) {
  const auto held = read_stack(path);
  const json& stack = *held;
  if (!stack.is_object() || !stack.contains("rules") || !stack["rules"].is_array()) {
    throw ConfigError(Problem{path, "rules", "", "is missing or not a list", "write \"rules\": [...]"});
  }
  Problems problems;
  for (const json& rule : stack["rules"]) {
    const std::string wrong = defect(rule);
    if (!wrong.empty()) problems.push_back({path, "rules", value_text(rule), wrong, ""});
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return stack["rules"];
}

std::string stack_file(const Plan& plan, std::string_view stack) {
  std::string path = find_preset("models/stacks", stack);
  if (!path.empty()) return path;
  Problem p = unknown_preset("models/stacks", stack, "stack");
  p.file = plan.file;
  p.field = "stack";
  throw ConfigError(std::move(p));
}

}  // namespace

FusionSet stack_fusion(const Plan& plan) {
  const std::string path = stack_file(plan, plan.stack);
  const auto held = read_stack(path);
  const json& stack = *held;
  if (stack.is_object() && stack.contains("fusion") && stack["fusion"].is_array())
    for (const json& entry : stack["fusion"]) {
      const FusionSet set = set_of(entry, path);
      if (stack_entry_applies(entry, plan)) return set;
    }
  throw ConfigError(Problem{path, "fusion", "", "has no entry for this plan", "end the list with an entry without \"when\""});
}

std::vector<Problem> stack_problems(const Plan& plan, std::string_view stack) {
  std::vector<Problem> problems;
  const json rules = read_rules(stack_file(plan, stack));
  for (const json& rule : rules) {
    const json value = value_of(plan, rule["field"]);
    if (!stack_entry_applies(rule, plan) || satisfied(rule, value, plan)) continue;
    const Derived* derived = find_derived(rule["field"].get<std::string>());
    const std::string field = derived == nullptr ? rule["field"].get<std::string>() : std::string(derived->blamed);
    const std::string reason = "refused by stack " + std::string(stack) + ": " + rule["reason"].get<std::string>() +
                               " (" + rule["source"].get<std::string>() + ")";
    problems.push_back({plan.file, field, value_text(value_of(plan, field)), reason, remedy_of(rule, plan)});
  }
  return problems;
}

std::optional<Problem> uncaptured(const Plan& plan) {
  if (plan.training.cuda_graphs == CudaGraphs::none || stack_graph_launch(plan)) return std::nullopt;
  return Problem{plan.file, "training.cuda_graphs", std::string(name(plan.training.cuda_graphs)),
                 "models/stacks has nothing of CUDA graphs in " + plan.stack, "use none, or stack megatron-core"};
}

Given fill_stack_defaults(Plan& plan, const Given& given) {
  Given known = given;
  const std::string path = find_preset("models/stacks", plan.stack);
  if (path.empty()) return known;  // the stack is refused by its own field
  const auto held = read_stack(path);
  const json& stack = *held;
  if (!stack.is_object() || !stack.contains("defaults")) return known;
  if (!stack["defaults"].is_array())
    throw ConfigError(Problem{path, "defaults", value_text(stack["defaults"]), "is not a list", "write \"defaults\": [...]"});
  for (const json& entry : stack["defaults"]) {
    const std::string wrong = default_defect(entry);
    if (!wrong.empty())
      throw ConfigError(Problem{path, "defaults", value_text(entry), wrong,
                                "write {\"field\": ..., \"value\": ..., \"when\": optional, \"source\": ..., \"verified\": ...}"});
    const std::string field = entry["field"];
    if (known.contains(field) || !stack_entry_applies(entry, plan)) continue;
    find_field(field)->read(entry["value"], plan);
    known.insert(field);
  }
  return known;
}

bool stack_remainder_last(const std::string& stack) {
  const std::string path = find_preset("models/stacks", stack);
  if (path.empty()) return false;  // the stack is refused by its own field
  const auto held = read_stack(path);
  const json& file = *held;
  if (!file.is_object() || !file.contains("remainder")) return false;
  const json& found = file["remainder"];
  const bool whole = found.is_object() && found.contains("source") && found.contains("verified") &&
                     found.value("stages", json()) == "last";
  if (!whole)
    throw ConfigError(Problem{path, "remainder", value_text(found), "is no object with stages \"last\", source and verified",
                              "write \"remainder\": {\"stages\": \"last\", \"source\": ..., \"verified\": ...}, or leave it out"});
  return true;
}

std::optional<std::int64_t> stack_graph_launch(const Plan& plan) {
  const std::string path = find_preset("models/stacks", plan.stack);
  if (path.empty()) return std::nullopt;  // the stack is refused by its own field
  const auto held = read_stack(path);
  const json& file = *held;
  if (!file.is_object() || !file.contains("cuda_graphs")) return std::nullopt;
  const json& found = file["cuda_graphs"];
  const auto counts = [&](const char* key) {
    return found.contains(key) && found[key].is_number_integer() && found[key] >= 1 && found[key] <= kMostLaunch;
  };
  if (!found.is_object() || !found.contains("source") || !found.contains("verified") || !counts("layers") || !counts("iteration"))
    throw ConfigError(Problem{path, "cuda_graphs", value_text(found), "is no object with layers and iteration, whole numbers from 1 to " +
                              std::to_string(kMostLaunch) + ", source and verified",
                              "write \"cuda_graphs\": {\"layers\": 5, \"iteration\": 4, \"source\": ..., \"verified\": ...}, or leave it out"});
  return found[std::string(name(plan.training.cuda_graphs == CudaGraphs::iteration ? CudaGraphs::iteration : CudaGraphs::layers))]
      .get<std::int64_t>();
}

StackTransfers stack_transfers(const std::string& stack) {
  const std::string path = find_preset("models/stacks", stack);
  if (path.empty()) return {};  // the stack is refused by its own field
  const auto held = read_stack(path);
  const json& file = *held;
  const json found = file.is_object() ? file.value("transfers", json()) : json();
  const bool whole = found.is_object() && found.contains("source") && found.contains("verified") &&
                     found.contains("overlap") && found["overlap"].is_array() &&
                     std::all_of(found["overlap"].begin(), found["overlap"].end(), [](const json& s) { return s.is_string(); }) &&
                     found.contains("scatter") &&
                     found["scatter"].is_boolean();
  if (!whole)
    throw ConfigError(Problem{path, "transfers", "", "is missing or lacks overlap, scatter, source or verified",
                              "write \"transfers\": {\"overlap\": [\"interleaved\"], \"scatter\": false, "
                              "\"source\": ..., \"verified\": ...}"});
  return {found["overlap"].get<std::vector<std::string>>(), found["scatter"].get<bool>()};
}

}  // namespace tandem
