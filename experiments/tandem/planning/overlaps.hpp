#pragma once
// Overlaps that a stack has off by default and that a plan leaves so.

#include <string>

#include "experiments/tandem/planning/assessment.hpp"

namespace tandem::planning {

/// A note that a plan has overlaps off, only because its stack has, which a search of its layout turns on; empty if it has none.
/// `stack`: see --stack.
std::string overlaps_note(const Assessment& assessment, const std::string& stack);

}  // namespace tandem::planning
