#pragma once
// Computations that do not always take the same time: a log-normal factor of mean 1 for each of every rank, a function of seed,
// rank and place in the program and of nothing else.

#include <vector>

#include "models/plan/perturbation.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/normal_table.hpp"

namespace tandem::sim {

struct SimulatedStep;
struct Setup;

/// What is simulated rank by rank and task by task at most. Half a gigabyte and some seconds.
inline constexpr std::int64_t kMostJitteredTasks = 100'000'000;

/// Throws InfeasibleError where a step of all ranks has more tasks than that.
void require_few_tasks(const Setup& setup);

/// Sets `simulated.delays`: by role, picoseconds that each computation takes beyond its slot's duration, above or below zero. Every rank
/// is its own role. Draws on `threads` at most, the caller's included. Throws InfeasibleError where ranks share processors: computations
/// then have no time of their own.
void set_jitter(SimulatedStep& simulated, const TaskGraph& graph, const Jitter& jitter, int threads);

/// Factors of one seed's computations.
class JitterFactors {
 public:
  explicit JitterFactors(const Jitter& jitter);
  /// Of computation number `position` of `rank`.
  double of(std::int32_t rank, std::uint32_t position) const;

 private:
  NormalTable factors_;
  std::uint64_t seed_;
};

}  // namespace tandem::sim
