#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "exec/run/learning_rate.hpp"
#include "exec/run/step_numbers.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

// Steps of a run of 10 steps, 4 samples of 8 tokens each.
double rate(const LearningRate& s, std::int64_t step) { return learning_rate(s, {step, 10, 4 * step, 4, 40, 8}); }

LearningRate schedule(DecayShape decay, std::int64_t warmup, std::int64_t decay_over) {
  LearningRate s;
  s.peak = 8;
  s.minimum = 2;
  s.decay = decay;
  s.warmup = warmup;
  s.decay_over = decay_over;
  return s;
}

/// Steps and their rates.
void check_rates(const LearningRate& s, const std::vector<std::pair<std::int64_t, double>>& expected) {
  for (const auto& [step, at] : expected) {
    CAPTURE(step);
    CHECK(rate(s, step) == at);
  }
}

}  // namespace

TEST_CASE("A constant learning rate is its peak from the first step") {
  for (std::int64_t step : {0, 5, 100}) CHECK(rate(schedule(DecayShape::constant, 0, 0), step) == 8);
}

TEST_CASE("Warm-up rises by equal steps and reaches the peak with its last step") {
  const auto s = schedule(DecayShape::constant, 4, 0);
  check_rates(s, {{0, 2}, {1, 4}, {2, 6}, {3, 8}, {4, 8}});
}

TEST_CASE("Linear decay falls from the peak after warm-up to the minimum at its end and stays") {
  const auto s = schedule(DecayShape::linear, 2, 8);
  check_rates(s, {{2, 8}, {5, 5}, {7, 3}, {8, 2}, {50, 2}});
}

TEST_CASE("Decay over nothing in particular is decay over the run") {
  const auto s = schedule(DecayShape::linear, 0, 0);
  CHECK(rate(s, 5) == 5);
  CHECK(rate(s, 9) == Approx(2.6).epsilon(1e-14));  // 8 - 6*0.9, one rounding
}

TEST_CASE("Cosine decay is at the middle half way and follows the cosine between") {
  const auto s = schedule(DecayShape::cosine, 0, 8);
  CHECK(rate(s, 0) == 8);
  CHECK(rate(s, 4) == Approx(5).epsilon(1e-14));  // cos(pi/2) is not exactly 0
  CHECK(rate(s, 2) == Approx(2 + 3 * (1 + std::sqrt(0.5))).epsilon(1e-14));
  CHECK(rate(s, 8) == 2);
}

TEST_CASE("Polynomial decay raises what is left to its power") {
  auto s = schedule(DecayShape::polynomial, 0, 8);
  s.power = 2;
  CHECK(rate(s, 4) == 2 + 6 * 0.25);
  CHECK(rate(s, 6) == 2 + 6 * 0.0625);
}

TEST_CASE("A schedule in samples or tokens is the same as one in steps times what a step holds") {
  const auto [unit, per_step] = GENERATE(table<std::string, std::int64_t>({{"samples", 4}, {"tokens", 32}}));
  const auto decay = GENERATE(DecayShape::linear, DecayShape::cosine);
  auto in_unit = schedule(decay, 3 * per_step, 9 * per_step);
  in_unit.unit = unit;
  for (std::int64_t step = 0; step < 12; ++step) CHECK(rate(in_unit, step) == rate(schedule(decay, 3, 9), step));
}

TEST_CASE("Warm-up that ends within a step does not pass the peak") {
  auto s = schedule(DecayShape::constant, 6, 0);
  s.unit = "samples";
  CHECK(rate(s, 0) == Approx(8 * 4.0 / 6).epsilon(1e-14));
  CHECK(rate(s, 1) == 8);
}

TEST_CASE("In samples a step counts with the batch it has, not with its number") {
  auto s = schedule(DecayShape::linear, 8, 20);
  s.unit = GENERATE("samples", "tokens");
  const std::int64_t tokens = s.unit == "tokens" ? 8 : 1;
  s.warmup *= tokens, s.decay_over *= tokens;
  CHECK(learning_rate(s, {0, 10, 0, 2, 100, 8}) == 2);
  CHECK(learning_rate(s, {1, 10, 2, 6, 100, 8}) == 8);
  CHECK(learning_rate(s, {2, 10, 14, 6, 100, 8}) == 5);
  s.decay_over = 0;
  CHECK(learning_rate(s, {2, 10, 14, 6, 20, 8}) == 5);
}

TEST_CASE("In tokens a step counts the lengths that sequences had") {
  auto s = schedule(DecayShape::linear, 0, 256);
  s.unit = "tokens";
  // 8 sequences of 8 tokens, then 2 of 32 a step: 64 tokens, 128, 192.
  const std::int64_t beyond = 8 * 8 - 8 * 32;
  CHECK(learning_rate(s, {2, 10, 8, 2, 24, 32, beyond}) == 6.5);
  CHECK(learning_rate(s, {3, 10, 10, 2, 24, 32, beyond}) == 5);
  CHECK(learning_rate(s, {4, 10, 12, 2, 24, 32, beyond}) == 3.5);
  s.decay_over = 0;  // over the run's 24 sequences: 64 + 16 * 32 tokens
  CHECK(learning_rate(s, {3, 10, 10, 2, 24, 32, beyond}) == Approx(8 - 6 * 128.0 / 576).epsilon(1e-14));
  s.unit = "samples";
  CHECK(learning_rate(s, {3, 10, 12, 2, 24, 32, beyond}) == 5);
}

TEST_CASE("A learning rate in an unknown unit is a contract error") {
  auto s = schedule(DecayShape::constant, 0, 0);
  s.unit = "hours";
  CHECK_THROWS_AS(rate(s, 0), ContractError);
}

TEST_CASE("A skipped update moves neither the schedule nor Adam's bias correction") {
  OptimizerSpec optimizer;
  optimizer.learning_rate = schedule(DecayShape::linear, 4, 0);
  for (const char* unit : {"steps", "samples", "tokens"}) {
    optimizer.learning_rate.unit = unit;
    optimizer.learning_rate.warmup = std::string(unit) == "steps" ? 4 : std::string(unit) == "samples" ? 16 : 128;
    const auto table = [&](std::int64_t step, std::int64_t skipped) {
      ScaleState scale;
      scale.skipped = skipped;
      return with_update({}, optimizer, {step, 10, 4 * step, 4, 40, 8}, scale);
    };
    for (const std::int64_t step : {1, 3, 6}) {
      CHECK(table(step + 2, 2).learning_rate == table(step, 0).learning_rate);
      CHECK(table(step + 2, 2).bias_correction1 == table(step, 0).bias_correction1);
    }
    CHECK(table(0, 0).learning_rate == 2);  // a quarter of the peak, 8, at the first of four warm-up steps
  }
}

TEST_CASE("The rate stays at its peak until decay_start, then decays over what is left") {
  LearningRate s = schedule(DecayShape::linear, 2, 0);  // 8 down to 2
  s.decay_start = 6;
  const std::vector<double> want{4, 8, 8, 8, 8, 8, 8, 6.5, 5, 3.5};
  for (std::int64_t step = 0; step < 10; ++step) CHECK(rate(s, step) == want[static_cast<std::size_t>(step)]);
}
