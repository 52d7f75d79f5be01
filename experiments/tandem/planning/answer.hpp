#pragma once
// The answer to a request: the plans in order of merit, what changes would do, and which input matters most.

#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/planning/option.hpp"

namespace tandem::planning {

struct Answer {
  std::vector<Option> options;                ///< predicted and fitting, best first
  std::vector<Option> too_large;              ///< predicted, not fitting; the one that needs least over its room first
  std::map<std::string, std::size_t> refused; ///< plans that cannot be, by reason
  std::vector<Change> what_if;                ///< of the best plan
  std::vector<Sensitivity> tornado;           ///< of the best plan, the widest first
  std::vector<std::string> warnings;

  const Option* best() const;                 ///< else the first that is too large; null where no plan was predicted
};

/// Simulates the plans and ranks them: in time first, then the cheapest, without prices those with fewest device hours. Throws
/// ConfigError: what `candidates`, `conditions_of`, `budget_of` and `what_if` refuse; a price that was asked for and is not known.
Answer answer(const Request& request, const Facts& facts);

}  // namespace tandem::planning
