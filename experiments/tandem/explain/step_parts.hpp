#pragma once
// What a step is spent on, for people.

#include <string>
#include <vector>

#include "reports/prediction/prediction.hpp"

namespace tandem::program {

/// Seconds of the critical role's step that one kind of work or waiting fills.
struct StepPart {
  std::string name;
  double seconds = 0;
};

/// The parts of `time_breakdown_s` with computation split by kernel, longest first; empty ones are left out. They add up to the step.
std::vector<StepPart> step_parts(const Prediction& prediction);

/// A line for each part, exact to a picosecond, and their sum.
std::string to_text(const std::vector<StepPart>& parts);

}  // namespace tandem::program
