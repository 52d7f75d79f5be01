#pragma once
// Orders of passes as text, as papers and PyTorch's logs write them.

#include <string>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace tandem::tests {

/// "F0" forward, "B0" of inputs, "W0" of weights; chunk 1 as in "F0'".
inline std::string text(const std::vector<Action>& actions) {
  std::string s;
  for (const Action& a : actions) {
    s += a.phase == Phase::forward ? "F" : a.phase == Phase::weight ? "W" : "B";
    s += std::to_string(a.micro_batch) + (a.chunk == 1 ? "' " : " ");
  }
  return s;
}

}  // namespace tandem::tests
