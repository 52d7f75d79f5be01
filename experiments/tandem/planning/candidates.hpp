#pragma once
// The plans of a request.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/planning/request.hpp"
#include "models/base/error.hpp"

namespace tandem::planning {

/// What a search says of the layout that it found.
struct FoundLayout {
  std::string text;     ///< "tensor 4, pipeline 8, ..."
  std::string at;       ///< the same as JSON
  std::vector<std::string> remarks;  ///< on this layout, a sentence each
};

/// One plan of a request.
struct CandidatePlan {
  std::string text;     ///< the plan as JSON
  std::string file;     ///< base of relative paths, and name in messages
  std::string label;    ///< distinguishes it, e.g. "cluster dgx-h100, devices 512"; empty if it is the only one
  std::string refusal;  ///< why it is impossible, if that is known before parsing; else empty
  std::optional<FoundLayout> found = {};  ///< if its layout was searched
};

/// One combination of the values that a request gives to plan fields.
struct Combination {
  std::string label;                ///< as CandidatePlan::label
  std::vector<std::pair<std::string, std::string>> fields;  ///< each with its value as JSON
};

/// Largest number of plans in a request.
inline constexpr std::size_t kMostCandidates = 2000;

/// Plan fields and their values as JSON or plain text.
using Fields = std::vector<std::pair<std::string, std::string>>;

/// All combinations of clusters, devices and field values, in that order, the last one fastest; of each the plans of all phases. If a
/// field is given, parallel.data is the devices divided by the other degrees. Throws ConfigError for an unreadable file, unknown model or
/// field, a model without cluster and devices, or too many plans; InfeasibleError for a configuration that a plan cannot express.
std::vector<std::vector<CandidatePlan>> candidates(const PlanChoice& choice, const std::vector<Phase>& phases);

/// The combinations of which candidates() makes plans, in its order. Throws ConfigError for an unknown field, a field that every phase
/// sets itself, or too many combinations.
std::vector<Combination> combinations(const PlanChoice& choice, const std::vector<Phase>& phases);

/// A combination with the fields of one phase in place of its own. A batch ramp-up of the plan is of the first phase.
Combination in_phase(Combination combination, const std::vector<Phase>& phases, std::size_t phase);
/// True if a phase sets a plan field itself.
bool sets(const Phase& phase, const std::string& field);
/// True if every phase does.
bool all_set(const std::vector<Phase>& phases, const std::string& field);
/// Problems of a phase's plan: those of fields that the phase sets are of --phase, not of the plan's file.
std::vector<Problem> problems_in(const Phase& phase, std::vector<Problem> problems);
/// The sequences per device that a phase has: 0 if it sets its batch itself.
std::int64_t sequences_per_device(const PlanChoice& choice, const Phase& phase);

/// Describes the batch that was chosen for a plan that comes without one; else empty.
std::string chosen_batch(const PlanChoice& choice, const std::vector<Phase>& phases);
/// Describes the layout that was chosen for a model that comes without a plan; else empty.
std::string chosen_layout(const PlanChoice& choice, const std::vector<Phase>& phases);

/// The plan with some fields changed. parallel.data follows from other degrees and from cluster.devices, unless it is among the fields.
CandidatePlan changed(const CandidatePlan& plan, const Fields& fields);

}  // namespace tandem::planning
