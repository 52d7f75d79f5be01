#include <cmath>
#include <limits>

#include "experiments/tandem/training/rates.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::program;
using std::chrono::seconds;

namespace {

/// A step of `batch` sequences that took `time_s`.
exec::StepResult step_of(std::int64_t batch, double time_s, double grad_norm = 1) {
  exec::StepResult s;
  s.global_batch_size = batch, s.step_time_s = time_s, s.grad_norm = grad_norm;
  return s;
}

RateScale scale_of(std::int64_t steps) {
  return {100, 4, steps, 2, 1e13, [](std::int64_t batch) { return 1e12 * static_cast<double>(batch); }};
}

}  // namespace

TEST_CASE("rates per device divide a step's work by its time and the plan's ranks") {
  RateWatch watch(scale_of(3));
  const StepRates r = watch.add(step_of(8, 2.0));  // 8 sequences of 100 tokens and 8 TFLOP in 2 s on 4 ranks
  CHECK(r.samples_per_s == 4);
  CHECK(r.tokens_per_s == 400);
  CHECK(r.tokens_per_s_per_device == 100);
  CHECK(r.model_flops_per_s_per_device == 1e12);
  CHECK(r.mfu.value() == Approx(0.4));  // 4 of 10 TFLOP/s
  CHECK(watch.add(step_of(4, 2.0)).model_flops_per_s_per_device == 0.5e12);  // another batch of a ramp-up
}

TEST_CASE("the time left is the remaining steps' at the pace behind the first step") {
  RateWatch watch(scale_of(5));
  const RateWatch::Clock::time_point start{};
  const StepRates first = watch.add(step_of(8, 7.0), start + seconds(10));  // began 3 s after `start`
  CHECK(first.elapsed_s == Approx(7));
  CHECK(first.remaining_s == Approx(4 * 7));
  watch.add(step_of(8, 2.0), start + seconds(13));
  const StepRates third = watch.add(step_of(8, 2.0), start + seconds(18));  // an evaluation lay between: 8 s for two steps
  CHECK(third.elapsed_s == Approx(15));
  CHECK(third.remaining_s == Approx(2 * 4));
}

TEST_CASE("skipped updates are counted from those before the run was resumed on") {
  RateWatch watch(scale_of(3));
  CHECK(watch.add(step_of(8, 1)).skipped_steps == 2);
  CHECK(watch.add(step_of(8, 1, std::numeric_limits<double>::infinity())).skipped_steps == 3);
  CHECK(watch.add(step_of(8, 1)).skipped_steps == 3);
}

TEST_CASE("a progress line ends with rates per device and the time left") {
  StepRates r;
  r.tokens_per_s_per_device = 4321.4, r.model_flops_per_s_per_device = 138.23e12, r.remaining_s = 31 * 3600 + 7 * 60 + 45;
  CHECK(rates_text(r) == "   4321 tokens/s/device  138.2 TFLOP/s/device  left 31:07:45");
  r.model_flops_per_s_per_device = 0.0045e12, r.remaining_s = 5;
  CHECK(rates_text(r) == "   4321 tokens/s/device  0.0045 TFLOP/s/device  left 0:00:05");
}
