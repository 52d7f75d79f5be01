#pragma once
// The plans that a request asks about.

#include <string>
#include <vector>

#include "experiments/tandem/planning/request.hpp"

namespace tandem::planning {

/// One plan of a request.
struct CandidatePlan {
  std::string text;     ///< the plan as JSON
  std::string file;     ///< where relative paths in it are looked for, and what messages name
  std::string at;       ///< what tells it from the others: "cluster dgx-h100, devices 512"; empty where it is the only one
  std::string refusal;  ///< why it cannot be, known before it is parsed; else empty
};

/// The most plans of one request.
inline constexpr std::size_t kMostCandidates = 2000;

/// Every combination of clusters, devices and field values, in that order, the last one fastest. Where one of them is given,
/// parallel.data takes the devices that the other degrees leave. Throws ConfigError: unreadable file, unknown model or field, a
/// model without cluster and devices, too many plans; InfeasibleError: a configuration that a plan cannot say.
std::vector<CandidatePlan> candidates(const PlanChoice& choice);

/// What was chosen that nobody said: the batch of a plan that comes without one, in words; else empty.
std::string chosen_batch(const PlanChoice& choice);
/// The same of the layout of a model that comes without a plan.
std::string chosen_layout(const PlanChoice& choice);

/// The same plan with a field changed. `value` is JSON or plain text.
CandidatePlan changed(const CandidatePlan& plan, const std::string& field, const std::string& value);

}  // namespace tandem::planning
