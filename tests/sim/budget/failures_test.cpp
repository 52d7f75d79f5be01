#include "sim/budget/failures.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "tests/catch.hpp"

using namespace tandem::sim;

namespace {

/// The process itself: one failure after another, checkpoints that become safe, work that is undone. No formula of the model.
class Process {
 public:
  Process(const FailureModel& model, double interval, std::uint64_t seed)
      : m_(model), interval_(interval), engine_(seed), gap_(model.failures_per_s) {}

  /// Shares of the time after `failures` failures.
  TimeShares run(int failures) {
    TimeShares sums;
    double now = 0, kept = 0;
    for (int i = 0; i < failures; ++i) {
      const double until = gap_(engine_);  // of running
      now += until;
      const double segment = interval_ + m_.save_s;
      // Checkpoint k is safe at k x segment + durable.
      const double safe = std::max(0.0, std::floor((until - m_.durable_s) / segment));
      kept += safe;
      sums.lost += until - safe * segment;
      double left = m_.recovery_s;
      for (double next = gap_(engine_); next < left; next = gap_(engine_)) sums.down += next;
      sums.down += left;
    }
    now += sums.down;
    return {kept * interval_ / now, kept * m_.save_s / now, sums.lost / now, sums.down / now};
  }

 private:
  FailureModel m_;
  double interval_;
  std::mt19937_64 engine_;
  std::exponential_distribution<double> gap_;
};

constexpr int kFailures = 400'000;

}  // namespace

TEST_CASE("expected goodput is that of a simulated process of failures within a percent") {
  const FailureModel cases[] = {{1.0 / 11138, 600, 30, 0}, {1.0 / 3600, 300, 60, 0}, {1.0 / 900, 120, 60, 0},
                                {1.0 / 3600, 300, 2, 200}, {1.0 / 900, 120, 1, 150}, {1.0 / 86400, 1800, 300, 0}};
  for (const FailureModel& m : cases)
    for (const double factor : {0.5, 1.0, 3.0}) {
      const double interval = std::max(factor * best_interval_s(m), m.durable_s);
      const TimeShares model = time_shares(m, interval), process = Process(m, interval, 1).run(kFailures);
      INFO("MTBF " << 1 / m.failures_per_s << " durable " << m.durable_s << " interval " << interval);
      CHECK(model.work == Approx(process.work).epsilon(0.01));
      CHECK(model.saving == Approx(process.saving).epsilon(0.01));
      CHECK(model.down == Approx(process.down).epsilon(0.01));
      CHECK(model.lost == Approx(process.lost).epsilon(0.01));
    }
}

TEST_CASE("no interval of a fine grid has more goodput than the best one") {
  const FailureModel cases[] = {{1.0 / 11138, 600, 30, 0}, {1.0 / 600, 60, 120, 0}, {1.0 / 3600, 300, 2, 200}};
  for (const FailureModel& m : cases) {
    const double best = best_interval_s(m), most = time_shares(m, best).work;
    for (double interval = std::max(1.0, m.durable_s - m.save_s); interval < 20 / m.failures_per_s; interval *= 1.01)
      CHECK(time_shares(m, interval).work <= most * (1 + 1e-12));
    CHECK(time_shares(m, best * 1.05).work < most);
  }
}

TEST_CASE("the best interval solves Daly's condition and is between Young's and Daly's estimates' errors") {
  const FailureModel m{1.0 / 11138, 600, 30, 0};
  // The derivative of exp(r (t + W)) - 1 over t is zero where exp(r (t + W)) (1 - r t) = 1.
  const double t = best_interval_s(m);
  CHECK(std::exp(m.failures_per_s * (t + m.save_s)) * (1 - m.failures_per_s * t) == Approx(1).epsilon(1e-8));
  // sqrt(2 x 30 x 11138) = 817.48; Daly: 817.48 x (1 + 0.0122327 + 0.0001496) - 30 = 797.60
  CHECK(young_interval_s(m) == Approx(817.48).epsilon(1e-4));
  CHECK(daly_interval_s(m) == Approx(797.60).epsilon(1e-4));
  CHECK(daly_interval_s(m) == Approx(t).epsilon(1e-4));
  const FailureModel often{1.0 / 10, 0, 30, 0};
  CHECK(daly_interval_s(often) == 10);
}

TEST_CASE("a job without failures has no interval and loses saves alone") {
  const FailureModel m{0, 600, 30, 0};
  CHECK(std::isinf(best_interval_s(m)));
  CHECK(time_shares(m, best_interval_s(m)).work == 1);
  CHECK(time_shares(m, 270).work == Approx(0.9));
  CHECK(time_shares(m, 270).saving == Approx(0.1));
}

TEST_CASE("LLaMA 3's 419 unexpected stops in 54 days give more than 90 % goodput") {
  // arXiv 2407.21783: table 5, 16,384 devices; section 3.3.1, 2 TB/s of storage. 405.9e9 parameters of 14 bytes: 2.84 s a save.
  const FailureModel m{419.0 / (54 * 86400), 600, 405.9e9 * 14 / 2e12, 0};
  CHECK(1 / m.failures_per_s / 3600 == Approx(3.093).epsilon(1e-3));
  // By hand: exp(-600 / 11135) = 0.9475 of the time runs, and sqrt(2 x 2.84 / 11135) = 2.26 % of it are saves and lost work.
  CHECK(time_shares(m, best_interval_s(m)).work == Approx(0.9475 * (1 - 0.0226)).epsilon(1e-3));
  CHECK(time_shares(m, best_interval_s(m)).work > 0.9);
}

TEST_CASE("spares cover the share of time that the Poisson distribution says") {
  // Mean 2: 0.1353, 0.4060, 0.6767, 0.8571, 0.9473, 0.9834, 0.9955
  CHECK(spares_for(2, 0.99) == 6);
  CHECK(spares_for(2, 0.9) == 4);
  CHECK(share_with_spares(2, 4) == Approx(0.94735).epsilon(1e-4));
  CHECK(spares_for(0, 0.99) == 0);
  CHECK(share_with_spares(0, 0) == 1);
  CHECK(spares_for(200, 0.99) > 225);
}
