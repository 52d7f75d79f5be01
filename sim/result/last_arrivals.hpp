#pragma once
// Finds the party that an exchange waited for.

#include <cstdint>
#include <optional>
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

  /// The other party that arrived last at the exchange of task `at` of `role`. Nothing if the task is no exchange, or if `role`
  /// itself arrived last.
  std::optional<LastArrival> of(std::size_t role, Place at);

 private:
  /// A role that takes part in an exchange, and the exchange's number in the role's own list.
  struct Party {
    std::uint32_t role, number;
  };
  /// One turn of an exchange: the first two of its parties, in order, that arrived at `started`; they have different roles.
  struct Arrivals {
    static constexpr std::uint32_t kUnknown = UINT32_MAX, kNone = UINT32_MAX - 1;
    std::int64_t started = 0;
    std::uint32_t first = kUnknown, second = kNone;
  };
  /// By number of an exchange in a table of slots: its tasks, ascending.
  using Tasks = std::vector<std::vector<Place>>;

  const std::vector<Place>& tasks(std::size_t role, std::size_t number);
  Tasks tasks_of_table(std::size_t role) const;
  std::int32_t exchange_of(std::size_t role, Place at) const;
  Arrivals last_of(std::uint32_t exchange, std::size_t turn, std::size_t turns, std::int64_t started);

  const SimulatedStep& simulated_;
  std::vector<Reader> readers_;               ///< by role
  std::vector<std::vector<Party>> parties_;   ///< by exchange
  std::vector<std::optional<Tasks>> tasks_;   ///< by table of slots
  std::vector<std::vector<Arrivals>> known_;  ///< by exchange, by turn
};

}  // namespace tandem::sim
