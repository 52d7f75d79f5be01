#include "sim/budget/failures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/base/error.hpp"

namespace tandem::sim {
namespace {

constexpr double kGolden = 0.6180339887498949;

/// Expected seconds between two checkpoints that become safe. A segment of work and save lasts `segment`; its checkpoint is safe
/// `durable_s` later, while the next segment runs. After a failure the first safe checkpoint takes `segment + durable_s` without
/// another one, each later one `segment`.
double seconds_between_checkpoints(const FailureModel& m, double segment) {
  const double rate = m.failures_per_s;
  if (rate == 0) return segment;
  const double fails = -std::expm1(-rate * segment);
  const double recovery = std::expm1(rate * m.recovery_s) / rate;
  const double restarted = std::exp(rate * m.recovery_s) * std::expm1(rate * (segment + m.durable_s)) / rate;
  return fails / rate + fails * (recovery + restarted);
}

double goodput(const FailureModel& m, double interval_s) {
  return interval_s / seconds_between_checkpoints(m, interval_s + m.save_s);
}

/// The Poisson probability of exactly `n`, from that of n - 1 in `last`.
double next_term(double last, double mean, int n) { return n == 0 ? std::exp(-mean) : last * mean / n; }

}  // namespace

TimeShares time_shares(const FailureModel& m, double interval_s) {
  require(interval_s > 0 && interval_s + m.save_s >= m.durable_s, "a checkpoint is begun before the one before it is safe");
  if (std::isinf(interval_s)) return {1, 0, 0, 0};
  const double period = seconds_between_checkpoints(m, interval_s + m.save_s);
  TimeShares out;
  out.work = interval_s / period;
  out.saving = m.save_s / period;
  out.down = -std::expm1(-m.failures_per_s * m.recovery_s);
  out.lost = std::max(0.0, 1 - out.work - out.saving - out.down);
  return out;
}

double best_interval_s(const FailureModel& m) {
  if (m.failures_per_s == 0) return std::numeric_limits<double>::infinity();
  require(m.save_s > 0 || m.durable_s > 0, "checkpoints that cost nothing have no best interval");
  const double least = std::max(m.durable_s - m.save_s, 1e-6 * (m.save_s + m.durable_s));
  double low = std::log(least), high = std::log(std::max(2 * least, 10 / m.failures_per_s));
  // Golden-section search: goodput rises up to its maximum and falls behind it.
  while (high - low > 1e-9) {
    const double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
    if (goodput(m, std::exp(a)) < goodput(m, std::exp(b))) low = a;
    else high = b;
  }
  const double found = std::exp((low + high) / 2);
  return goodput(m, least) < goodput(m, found) ? found : least;
}

double young_interval_s(const FailureModel& m) { return std::sqrt(2 * m.save_s / m.failures_per_s); }

double daly_interval_s(const FailureModel& m) {
  const double mtbf = 1 / m.failures_per_s;
  if (m.save_s >= 2 * mtbf) return mtbf;
  const double ratio = m.save_s / (2 * mtbf);
  return std::sqrt(2 * m.save_s * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - m.save_s;
}

int spares_for(double mean_broken, double share) {
  double term = 0, sum = 0;
  for (int n = 0;; ++n) {
    term = next_term(term, mean_broken, n);
    sum += term;
    if (sum >= share || (n > mean_broken && term < 1e-18)) return n;
  }
}

double share_with_spares(double mean_broken, int spares) {
  double term = 0, sum = 0;
  for (int n = 0; n <= spares; ++n) sum += term = next_term(term, mean_broken, n);
  return std::min(1.0, sum);
}

}  // namespace tandem::sim
