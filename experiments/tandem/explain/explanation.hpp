#pragma once
// Why a value of `simulate --json` is what it is: formula, values filled in, sources of the facts, range.

#include <memory>
#include <string>
#include <vector>

#include "experiments/tandem/explain/field_origins.hpp"
#include "experiments/tandem/explain/step_parts.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/prediction.hpp"
#include "sim/result/simulate.hpp"
#include "topology/fact_list.hpp"
#include "topology/topology.hpp"

namespace tandem::program {

/// A prediction with everything that it was made of.
struct ExplainedCase {
  Plan plan;
  TaskGraph graph;
  std::shared_ptr<const Topology> topology;
  Prediction prediction;
  std::vector<FactOrigin> facts;
  FieldOrigins origins;
  std::string text;         ///< of the plan file
  std::string result_json;  ///< what `simulate --json` prints
};

/// Loads, lowers and simulates a plan file. `progress` may be empty. Throws ConfigError or InfeasibleError.
ExplainedCase make_case(const std::string& plan_path, const std::string& stack, const sim::TellProgress& progress);

struct Explanation {
  std::string key;
  std::string value;  ///< as JSON: a number where the key's value is one
  std::string unit;   ///< "s", "byte", "tokens/s" ...; empty where the value has none
  std::string text;   ///< the value for people: "13337952256 (12.4 GiB)"
  std::string formula, filled, range;
  std::vector<StepPart> parts;  ///< of the step's time; empty for other keys
  std::vector<FactOrigin> facts;
  std::vector<std::pair<std::string, std::string>> sources;  ///< ids that the facts name, and their texts
};

/// Every key that can be asked for, dotted, in the order of the result; lists of objects as "roles[]".
std::vector<std::string> explainable_keys(const ExplainedCase& c);

/// Explains one of explainable_keys(), or a plan field that is not set. A number chooses an entry of a list: "roles[3].arena_bytes"; "roles[]" is the first. Throws
/// ConfigError that lists the keys if there is none of that name.
Explanation explain_key(const ExplainedCase& c, const std::string& key);

std::string to_text(const Explanation& e);
std::string to_json(const Explanation& e);

}  // namespace tandem::program
