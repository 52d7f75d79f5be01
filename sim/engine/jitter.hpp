#pragma once
// Random computation times: every computation of every rank gets a log-normal factor of mean 1. The factor depends only on seed,
// rank and position in the program.

#include <cmath>
#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/plan/perturbation.hpp"
#include "sim/engine/normal_table.hpp"

namespace tandem::sim {

struct Quotient;
struct Setup;

/// Largest step that is simulated with jitter, in tasks of all ranks: half a gigabyte and some seconds.
inline constexpr std::int64_t kMostJitteredTasks = 100'000'000;

/// Throws InfeasibleError if all ranks together have more than kMostJitteredTasks tasks in a step.
void require_few_tasks(const Setup& setup);

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
constexpr std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Factors on computation times under one seed.
class JitterFactors {
 public:
  explicit JitterFactors(const Jitter& jitter);
  /// Factor of the task at `position` of the program of `rank`.
  double of(std::int32_t rank, std::uint32_t position) const {
    return factors_.of(scramble(seed_ ^ (static_cast<std::uint64_t>(rank) << 32 | position)));
  }

 private:
  NormalTable factors_;
  std::uint64_t seed_;
};

/// Extra time of each computation under one seed. Delays are computed on demand: those of thousands of ranks would fill hundreds of
/// megabytes.
class JitterDelays {
 public:
  /// `first_slot`: by template of `graph`, then the number of slots. Throws InfeasibleError if ranks share processors: their
  /// computations then slow each other down.
  JitterDelays(const Jitter& jitter, const TaskGraph& graph, const std::vector<std::uint32_t>& first_slot,
               const Quotient& quotient);

  /// Returns the extra ps, above or below zero, of the task of `slot` at `position` of the program of `rank`. Without jitter the
  /// task takes `duration` ps.
  std::int64_t of(std::int32_t rank, std::uint32_t position, std::uint32_t slot, std::int64_t duration) const {
    if (!varies_[slot] || duration == 0) return 0;
    const double beyond = static_cast<double>(duration) * (factors_.of(rank, position) - 1);
    return static_cast<std::int64_t>(beyond + std::copysign(0.5, beyond));  // rounds to nearest; llround would be a call
  }

 private:
  JitterFactors factors_;
  std::vector<std::uint8_t> varies_;  ///< by slot: it is a computation
};

}  // namespace tandem::sim
