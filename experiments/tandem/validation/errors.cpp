#include "experiments/tandem/validation/errors.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <tuple>

namespace tandem::program {

namespace {

constexpr std::size_t kQuantiles = 19;  // of a set with more records than that
constexpr double kDigits = 1e4;         // an error is known to no more

/// At most kQuantiles values that stand for all, each for as many.
std::vector<double> thinned(std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  std::vector<double> out;
  const std::size_t n = std::min(errors.size(), kQuantiles);
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(std::round(errors[(2 * i + 1) * errors.size() / (2 * n)] * kDigits) / kDigits);
  return out;
}

using Place = std::tuple<std::string, std::string, std::string>;  // device, situation, set

}  // namespace

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &date)};
}

sim::ErrorBook error_book(const std::vector<JudgedRecord>& records, const sim::ErrorBook& before, const std::string& by) {
  std::map<Place, std::vector<double>> errors;
  for (const JudgedRecord& r : records)
    if (r.counts() && r.timed() && !r.plan.calibration.empty())
      errors[{r.plan.calibration, r.situation, r.measured.set}].push_back(-std::log1p(r.time_error()));
  sim::ErrorBook out = before;
  out.computed = "computed " + today() + " with " + by;
  out.entries.clear();
  for (const auto& [place, values] : errors)
    out.entries.push_back({std::get<0>(place), std::get<1>(place), std::get<2>(place), static_cast<int>(values.size()),
                           thinned(values)});
  return out;
}

}  // namespace tandem::program
