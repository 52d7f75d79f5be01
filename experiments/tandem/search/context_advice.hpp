#pragma once
// Context ranks for plans of long sequences that do not fit.

#include <string>

#include "models/plan/plan.hpp"

namespace tandem::search {

/// The fewest context ranks with which a plan of long sequences fits, on its devices or, if need be, on more; with full recomputation
/// if nothing else does: "share each sequence among 8 ranks (parallel.context 8, parallel.data 1), with which a device needs 61.2 GB".
/// Simulates what it says. Empty: none fits, the stack has no context ranks, sequences are short, or a simpler
/// change suffices and costs no more.
std::string context_advice(const Plan& plan);

/// What makes a plan that does not fit smaller: context_advice() and the advice of `models`. Takes a while for long sequences.
std::string ways_to_fit(const Plan& plan);

}  // namespace tandem::search
