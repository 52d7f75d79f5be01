#pragma once
// The error of a constant rate, which a simulator must at least beat.
//
// The baseline of a record is FLOPs / (devices x r): all matrix FLOPs of its step, including recomputation, at one achieved
// rate r per device (preset name) and compute type. r is fitted without the record itself, to a pool of other timed records
// with the same device and type:
//   - its own set, if the set has 8 timed records or more;
//   - else all sets of fewer than 8 together;
//   - if that pool is empty, all timed records; if that is empty too, there is no baseline.
// r minimises the mean absolute percent error over the pool: it is the median of the pool's inverse achieved rates, each
// weighted with the rate. Grade C is not used.

#include <cstddef>
#include <vector>

#include "experiments/tandem/validation/judged_record.hpp"

namespace tandem::program {

/// Sets with at least this many timed records have their own constant.
inline constexpr std::size_t kOwnBaseline = 8;

/// The constant rate (FLOP/s per device) with the least mean absolute percent error over `achieved`, which must not be empty.
double best_constant(const std::vector<double>& achieved);

/// Sets `baseline_s` of every timed record of grade A or B.
void add_baseline(std::vector<JudgedRecord>& records);

}  // namespace tandem::program
