#pragma once
// Whom an exchange waited for.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/simulated_step.hpp"

namespace tandem::sim {

/// A task of a role.
struct LastArrival {
  std::size_t role;
  Place at;
};

/// Finds the last party of an exchange. `simulated` must outlive it.
class LastArrivals {
 public:
  explicit LastArrivals(const SimulatedStep& simulated);

  /// The other party that came last to the exchange of task `at` of `role`. Nothing where the task exchanges nothing, or `role`
  /// itself came last.
  std::optional<LastArrival> of(std::size_t role, Place at);

 private:
  const std::vector<Place>& tasks(std::size_t role, std::uint32_t exchange);
  std::int32_t exchange_of(std::size_t role, Place at) const;

  const SimulatedStep& simulated_;
  std::vector<Reader> readers_;                                          ///< by role
  std::vector<std::vector<std::uint32_t>> roles_;                        ///< by exchange
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Place>> tasks_;  ///< by table of slots and number of its exchange
};

}  // namespace tandem::sim
