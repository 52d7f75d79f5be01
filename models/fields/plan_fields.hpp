#pragma once
// The one table of what a plan file may say. Parsing, printing, the JSON Schema, "did you mean" and the stack rules
// all read it, so they agree.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json.hpp"
#include "models/plan/plan.hpp"

namespace tandem {

/// Dotted paths of the fields that a file (or a preset it names) spells out.
using Given = std::set<std::string, std::less<>>;
using Problems = std::vector<Problem>;

inline constexpr std::int64_t kMaxDevices = std::int64_t{1} << 22;  ///< of a cluster

/// Why a value is refused and what would work.
struct Refusal {
  std::string reason;
  std::string remedy;
};

/// One field: where it stands in the file and in a Plan, what it may be, what it is when left out.
struct PlanField {
  std::string path;         ///< dotted, e.g. "training.dropout.hidden"
  std::string description;  ///< one sentence
  std::string fallback;     ///< the default in words where it depends on other fields; empty: that of a default Plan
  bool required = false;
  std::function<std::optional<Refusal>(const nlohmann::json&, Plan&)> read;
  std::function<nlohmann::json(const Plan&)> write;  ///< null: nothing to print
  std::function<nlohmann::json()> schema;            ///< type and limits of the value

  PlanField&& must() && { return required = true, std::move(*this); }
  PlanField&& otherwise(std::string words) && { return fallback = std::move(words), std::move(*this); }
};

/// All fields in the order of the file: top, model, parallel, training, cluster with its perturbation.
const std::vector<PlanField>& plan_fields();

/// The field at a dotted path, null if there is none.
const PlanField* find_field(std::string_view path);

/// Keys that may stand directly below a dotted prefix ("" for the top), in table order, each once.
std::vector<std::string> keys_below(std::string_view prefix);

std::vector<PlanField> top_fields();
std::vector<PlanField> model_fields();
std::vector<PlanField> parallel_fields();
std::vector<PlanField> training_fields();
std::vector<PlanField> cluster_fields();
std::vector<PlanField> perturbation_fields();

}  // namespace tandem
