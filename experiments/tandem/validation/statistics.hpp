#pragma once
// The few statistics that judging a simulator needs. Every function asks for at least one value (ContractError).

#include <utility>
#include <vector>

namespace tandem::program {

double mean(const std::vector<double>& values);

/// Of an even number of values, the mean of the two in the middle.
double median(std::vector<double> values);

/// A value and how much it counts.
struct Weighted {
  double value = 0, weight = 0;
};

/// The smallest value at or below which `share` (0 to 1) of the weight lies.
double weighted_quantile(std::vector<Weighted> values, double share);

/// Kendall's tau-b of pairs (predicted, measured): 1 the same order, -1 the opposite, ties discounted (Kendall 1945).
/// 0 when either side is all ties.
double kendall_tau_b(const std::vector<std::pair<double, double>>& pairs);

}  // namespace tandem::program
