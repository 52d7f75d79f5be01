#pragma once
// The answer to a request: ranked plans, the effect of changes, and the sensitivity to each input.

#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/planning/option.hpp"

namespace tandem::planning {

using Assessments = std::vector<Assessment>;  ///< of the phases of a training

struct Answer {
  std::vector<Phase> phases;                  ///< of the request
  std::vector<Option> options;                ///< predicted and fitting, best first
  std::vector<Option> too_large;              ///< predicted but too large; smallest excess of memory first
  std::map<std::string, std::vector<std::string>> refused;  ///< labels of impossible plans, by reason
  std::vector<Change> what_if;                ///< changes of the best plan
  std::vector<Sensitivity> tornado;           ///< of the best plan, widest range first
  std::vector<std::string> warnings;
  bool interrupted = false;                   ///< the search of layouts was stopped

  const Option* best() const;                 ///< else the first of too_large; null if no training was predicted
  /// The plan with the fewest devices that meets --days and --budget. Null if none is given, none meets them, or all plans have
  /// equally many devices.
  const Option* fewest_devices() const;
};

/// Simulates the plans and ranks them: those in time and within the budget first, then by cost, or without prices by hours of rented devices. Throws ConfigError
/// like `candidates`, `conditions_of`, `budget_of` and `what_if`, and if a wanted price is unknown.
Answer answer(const Request& request, const Facts& facts);
/// As answer(), of trainings that are simulated already. `chosen`: a sentence for each value that was chosen for them.
Answer answer_of(const Request& request, const Facts& facts, std::vector<Assessments> trainings,
                 const std::vector<std::string>& chosen);
/// Throws early what answer_of() throws about options: `places` need only plan and topology, not a prediction.
void require_conditions(const Request& request, const Facts& facts, const std::vector<Assessment>& places);

}  // namespace tandem::planning
