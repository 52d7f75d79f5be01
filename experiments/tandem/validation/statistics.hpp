#pragma once
// Statistics for judging a simulator. Every function requires at least one value (ContractError).

#include <utility>
#include <vector>

namespace tandem::program {

double mean(const std::vector<double>& values);

/// The median; for an even number of values, the mean of the two middle ones.
double median(std::vector<double> values);

/// A value and its weight.
struct Weighted {
  double value = 0, weight = 0;
};

/// The smallest value with at least `share` (0 to 1) of the weight at or below it.
double weighted_quantile(std::vector<Weighted> values, double share);

/// Kendall's tau-b of (predicted, measured) pairs: 1 same order, -1 opposite order, ties discounted (Kendall 1945). 0 if either
/// side is all ties.
double kendall_tau_b(const std::vector<std::pair<double, double>>& pairs);

}  // namespace tandem::program
