#include "experiments/tandem/validation/baseline.hpp"

#include <functional>
#include <map>

#include "experiments/tandem/validation/statistics.hpp"

namespace tandem::program {

namespace {

double device_flops(const JudgedRecord& r) { return r.flops / static_cast<double>(r.plan.devices); }
double achieved(const JudgedRecord& r) { return device_flops(r) / *r.measured.step_time_s; }

bool alike(const JudgedRecord& a, const JudgedRecord& b) {
  return a.plan.device == b.plan.device && a.plan.compute == b.plan.compute;
}

using Records = std::vector<const JudgedRecord*>;
using Sizes = std::map<std::string, std::size_t>;

std::vector<double> pool(const Records& timed, const JudgedRecord& left_out,
                         const std::function<bool(const JudgedRecord&)>& wanted) {
  std::vector<double> rates;
  for (const JudgedRecord* r : timed)
    if (r != &left_out && alike(*r, left_out) && wanted(*r)) rates.push_back(achieved(*r));
  return rates;
}

std::vector<double> pool_of(const Records& timed, const Sizes& sizes, const JudgedRecord& left_out) {
  const bool large = sizes.at(left_out.measured.set) >= kOwnBaseline;
  const auto near = pool(timed, left_out, [&](const JudgedRecord& r) {
    return large ? r.measured.set == left_out.measured.set : sizes.at(r.measured.set) < kOwnBaseline;
  });
  return near.empty() ? pool(timed, left_out, [](const JudgedRecord&) { return true; }) : near;
}

}  // namespace

double best_constant(const std::vector<double>& achieved) {
  std::vector<Weighted> inverses;
  for (double rate : achieved) inverses.push_back({1 / rate, rate});
  return 1 / weighted_quantile(std::move(inverses), 0.5);
}

void add_baseline(std::vector<JudgedRecord>& records) {
  Records timed;
  Sizes sizes;
  for (const JudgedRecord& r : records)
    if (r.counts() && r.timed() && r.flops > 0) timed.push_back(&r), ++sizes[r.measured.set];
  for (JudgedRecord& r : records) {
    if (!r.counts() || !r.timed() || r.flops <= 0) continue;
    const std::vector<double> rates = pool_of(timed, sizes, r);
    if (!rates.empty()) r.baseline_s = device_flops(r) / best_constant(rates);
  }
}

}  // namespace tandem::program
