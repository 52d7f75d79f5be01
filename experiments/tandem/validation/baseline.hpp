#pragma once
// What a constant achieves: the least a simulator must beat.
//
// The baseline of a record is FLOPs / (devices x r): all matrix FLOPs of its step, recomputation included, at one achieved
// rate r of its device (the preset's name) and compute type. r is fitted without the record itself, on a pool of other
// timed records with the same device and type:
//   - its own set, where the set has 8 timed records or more;
//   - all sets of fewer than 8 together, for the others;
//   - where such a pool is empty, every timed record given; where that is empty too, there is no baseline.
// r minimises the mean absolute percent error over the pool: the median of the pool's achieved rates' inverses, each weighted
// with the rate. Grade C takes no part.

#include <cstddef>
#include <vector>

#include "experiments/tandem/validation/judged_record.hpp"

namespace tandem::program {

/// Sets of at least so many timed records have a constant of their own.
inline constexpr std::size_t kOwnBaseline = 8;

/// The constant rate (FLOP/s of a device) that minimises the mean absolute percent error over achieved rates; at least one.
double best_constant(const std::vector<double>& achieved);

/// Fills in `baseline_s` of every timed record that counts.
void add_baseline(std::vector<JudgedRecord>& records);

}  // namespace tandem::program
