#include "experiments/tandem/validation/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/base/error.hpp"

namespace tandem::program {

double mean(const std::vector<double>& values) {
  require(!values.empty(), "a mean of nothing");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  require(!values.empty(), "a median of nothing");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double weighted_quantile(std::vector<Weighted> values, double share) {
  require(!values.empty(), "a quantile of nothing");
  std::sort(values.begin(), values.end(), [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  double whole = 0;
  for (const Weighted& w : values) whole += w.weight;
  const double wanted = share * whole * (1 - 1e-12);  // tolerance, so that rounding does not affect equal shares
  double sum = 0;
  for (const Weighted& w : values)
    if ((sum += w.weight) >= wanted) return w.value;
  return values.back().value;
}

double kendall_tau_b(const std::vector<std::pair<double, double>>& pairs) {
  require(!pairs.empty(), "an order of nothing");
  double agree = 0, untied_first = 0, untied_second = 0;
  const auto sign = [](double a, double b) { return static_cast<double>((a > b) - (a < b)); };
  for (std::size_t i = 0; i < pairs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double first = sign(pairs[i].first, pairs[j].first), second = sign(pairs[i].second, pairs[j].second);
      agree += first * second;
      untied_first += std::abs(first);
      untied_second += std::abs(second);
    }
  const double most = std::sqrt(untied_first * untied_second);
  return most > 0 ? agree / most : 0;
}

}  // namespace tandem::program
