#include "models/stack/condition.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/fields/plan_fields.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kConstraints{"allowed", "except", "min", "max", "multiple_of"};
constexpr std::string_view kIncludes = "includes";  // of conditions only: no field's value could be refused for what it lacks

// Frameworks' code does not read these fields. A rule that did would guess whose plan it is.
constexpr std::array<std::string_view, 4> kNoConditions{"model.name", "model.family", "model.vocab_size", "cluster.preset"};

struct Derived {
  std::string_view path;
  std::string_view blamed;  ///< the plan file's field that a message names
  json (*value)(const Plan&);
};

/// Null where there are none: of layouts that need more devices than there are, which have no data ranks.
json micro_batches(const Plan& p) {
  return p.parallel.data > 0 && p.training.micro_batch_size > 0 ? json(p.micro_batches()) : json();
}

constexpr std::array kDerived{
    Derived{"derived.micro_batches", "training.global_batch_size", micro_batches},
    Derived{"derived.gradient_ranks", "parallel.data",
            [](const Plan& p) { return json(p.parallel.data * p.parallel.context); }},  // ranks that sum the same gradients
    Derived{"derived.world_size", "cluster.devices", [](const Plan& p) { return json(p.world_size()); }},
    Derived{"derived.sequence_per_context_rank", "training.seq_length",
            [](const Plan& p) { return json(p.training.seq_length / p.parallel.context); }},
    Derived{"device.generation", "cluster.preset", [](const Plan& p) { return json(p.cluster.generation); }},
};

const Derived* find_derived(std::string_view path) {
  const auto* const found = std::find_if(kDerived.begin(), kDerived.end(), [&](const Derived& d) { return d.path == path; });
  return found == kDerived.end() ? nullptr : found;
}

bool contains(const json& list, const json& value) { return std::find(list.begin(), list.end(), value) != list.end(); }

bool includes_any(const json& list, const json& of) {
  return std::any_of(of.begin(), of.end(), [&](const json& word) { return contains(list, word); });
}

std::string field_defect(const std::string& field) {
  if (!is_rule_field(field)) return "there is no field \"" + field + "\"";
  const bool guessed = std::find(kNoConditions.begin(), kNoConditions.end(), field) != kNoConditions.end();
  return guessed ? "a condition may not name " + field + ": ask for hardware by device.generation and for time by since and until" : "";
}

}  // namespace

bool is_constraint(std::string_view key) { return std::find(kConstraints.begin(), kConstraints.end(), key) != kConstraints.end(); }

bool is_rule_field(const std::string& path) { return find_derived(path) != nullptr || find_field(path) != nullptr; }

json value_of(const Plan& plan, const std::string& path) {
  if (const Derived* d = find_derived(path)) return d->value(plan);
  return find_field(path)->write(plan);
}

std::string blamed_field(const std::string& path) {
  const Derived* derived = find_derived(path);
  return derived == nullptr ? path : std::string(derived->blamed);
}

std::int64_t divisor(const Plan& plan, const json& of) {
  return of.is_string() ? value_of(plan, of.get<std::string>()).get<std::int64_t>() : of.get<std::int64_t>();
}

bool satisfied(const json& rule, const json& value, const Plan& plan) {
  for (const auto& [key, of] : rule.items()) {
    if (key == "allowed" && !contains(of, value)) return false;
    if (key == "except" && contains(of, value)) return false;
    if (key == kIncludes && !includes_any(value, of)) return false;
    if (value.is_null()) continue;
    if (key == "min" && value.get<double>() < of.get<double>()) return false;
    if (key == "max" && value.get<double>() > of.get<double>()) return false;
    if (key == "multiple_of" && value.get<std::int64_t>() % divisor(plan, of) != 0) return false;
  }
  return true;
}

Conditions::Conditions(std::shared_ptr<const json> when) : when_(std::move(when)) {
  for (auto c = when_->begin(); c != when_->end(); ++c) {
    const Derived* derived = find_derived(c.key());
    all_.push_back({derived == nullptr ? find_field(c.key()) : nullptr, derived == nullptr ? nullptr : derived->value, &*c});
  }
}

bool Conditions::hold(const Plan& plan) const {
  return std::all_of(all_.begin(), all_.end(), [&](const One& c) {
    return satisfied(*c.constraints, c.field == nullptr ? c.derived(plan) : c.field->write(plan), plan);
  });
}

std::string constraint_defect(std::string_view key, const json& value) {
  if (key == "min" || key == "max") return value.is_number() ? "" : std::string(key) + " must be a number";
  if (key != "multiple_of") return value.is_array() ? "" : std::string(key) + " must be a list";
  const bool number = value.is_number_integer() && value > 0;
  const bool field = value.is_string() && is_rule_field(value.get<std::string>());
  return number || field ? "" : "multiple_of must be a whole number above zero or a field of the plan";
}

std::string condition_defect(const json& when) {
  if (!when.is_object()) return "\"when\" must be an object";
  for (const auto& [field, condition] : when.items()) {
    if (std::string wrong = field_defect(field); !wrong.empty()) return wrong;
    if (!condition.is_object()) return "the condition on " + field + " must be an object";
    for (const auto& [key, value] : condition.items()) {
      if (!is_constraint(key) && key != kIncludes) return "a condition has no key \"" + key + "\"";
      if (std::string wrong = constraint_defect(key, value); !wrong.empty()) return wrong;
    }
  }
  return {};
}

}  // namespace tandem
