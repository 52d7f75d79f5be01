#pragma once
// The plans of a request.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/planning/request.hpp"

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

/// All combinations of clusters, devices and field values, in that order, the last one fastest. If any of these is given,
/// parallel.data is the devices divided by the other degrees. Throws ConfigError for an unreadable file, unknown model or field, a
/// model without cluster and devices, or too many plans; InfeasibleError for a configuration that a plan cannot express.
std::vector<CandidatePlan> candidates(const PlanChoice& choice);

/// The combinations of which candidates() makes plans, in its order. Throws ConfigError for an unknown field or too many combinations.
std::vector<Combination> combinations(const PlanChoice& choice);

/// Describes the batch that was chosen for a plan that comes without one; else empty.
std::string chosen_batch(const PlanChoice& choice);
/// Describes the layout that was chosen for a model that comes without a plan; else empty.
std::string chosen_layout(const PlanChoice& choice);

/// The plan with one field changed. `value`: JSON or plain text.
CandidatePlan changed(const CandidatePlan& plan, const std::string& field, const std::string& value);

}  // namespace tandem::planning
