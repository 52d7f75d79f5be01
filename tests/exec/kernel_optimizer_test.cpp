#include "tests/exec/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Param parameter(std::int32_t global_index, std::int64_t offset, std::int64_t rows, std::int64_t cols) {
  Param p;
  p.global_index = global_index;
  p.offset = offset;
  p.rows = rows;
  p.cols = cols;
  return p;
}

Values norm(Kernels& kernels, const std::vector<Param>& params, const Values& gradients, std::int64_t global) {
  kernels.context.params = params;
  return kernels
      .run(GradNorm{static_cast<std::int64_t>(gradients.size()), global}, {real(gradients)}, {fp64(unwritten(global))})
      .front();
}

Scalars clip(const Values& partial, double clip_grad) {
  Kernels kernels;
  kernels.run(ClipCoefficient{static_cast<std::int64_t>(partial.size()), clip_grad}, {fp64(partial)}, {});
  return kernels.scalars;
}

struct AdamWCase {
  AdamW op{0, 0.9, 0.99, 1e-8, 0.1, false};
  Values gradient, weight, exp_avg, exp_avg_sq;

  std::vector<Values> run(Kernels& kernels, const std::vector<Param>& params) {
    kernels.context.params = params;
    op.elements = static_cast<std::int64_t>(weight.size());
    return kernels.run(op, {real(gradient)}, {real(weight), real(exp_avg), real(exp_avg_sq)});
  }
};

// torch.optim.AdamW, its documented algorithm, one element.
struct PlainAdamW {
  double p, m, v;
  void step(double g, const AdamW& op, const Scalars& s, bool decay) {
    g *= s.clip_coefficient;
    if (decay) p *= 1 - s.learning_rate * op.weight_decay;
    m = op.beta1 * m + (1 - op.beta1) * g;
    v = op.beta2 * v + (1 - op.beta2) * g * g;
    p -= s.learning_rate * (m / s.bias_correction1) / (std::sqrt(v / s.bias_correction2) + op.epsilon);
  }
};

AdamWCase random_case(std::int64_t n) {
  AdamWCase c;
  c.gradient = random_values(n, 1);
  c.weight = random_values(n, 2);
  c.exp_avg = random_values(n, 3);
  c.exp_avg_sq = random_values(n, 4);
  for (double& v : c.exp_avg_sq) v *= v;
  return c;
}

}  // namespace

TEST_CASE("accumulation adds and converts to the destination's type") {
  Kernels floats(DType::fp32);
  const Values source = random_values(101, 1), before = random_values(101, 2);
  Values expected;
  for (std::size_t i = 0; i < source.size(); ++i) expected.push_back(before[i] + source[i]);
  const Accumulate widening{101, DType::fp32, DType::fp64};
  CHECK(floats.run(widening, {real(source), fp64(before)}, {fp64(before)}).front() == expected);
  const Accumulate narrowing{101, DType::fp64, DType::fp32};
  for (double& e : expected) e = static_cast<float>(e);
  CHECK(floats.run(narrowing, {fp64(source), real(before)}, {real(before)}).front() == expected);
  const Accumulate same{101, DType::fp32, DType::fp32};
  CHECK(floats.run(same, {real(source), real(before)}, {real(before)}).front() == expected);
}

TEST_CASE("the norm vector holds each parameter's sum of squares at its global index and zeros elsewhere") {
  const Values g = random_values(20000, 1);
  Kernels kernels;
  const Values partial = norm(kernels, {parameter(4, 3, 71, 97), parameter(1, 7000, 4097, 3)}, g, 6);
  CHECK(partial[4] == Approx(dot(slice(g, 3, 71 * 97), slice(g, 3, 71 * 97))).epsilon(1e-13));
  CHECK(partial[1] == Approx(dot(slice(g, 7000, 4097 * 3), slice(g, 7000, 4097 * 3))).epsilon(1e-13));
  for (const std::size_t i : {0, 2, 3, 5}) CHECK(partial[i] == 0);
}

TEST_CASE("a parameter's part of the norm has the same bits wherever it lies in the flat buffer") {
  const Values g = random_values(9001, 1);
  Kernels kernels;
  const double at_start = norm(kernels, {parameter(0, 0, 9001, 1)}, g, 1)[0];
  for (const std::int64_t gap : {1, 5, 64, 4096}) {
    const Values moved = concatenated(random_values(gap, 2), g);
    CHECK(norm(kernels, {parameter(0, gap, 9001, 1)}, moved, 1)[0] == at_start);
  }
}

TEST_CASE("the norm of float gradients is summed in double precision") {
  Kernels kernels(DType::fp32);
  Values g(100001, 1e-4f);
  const double expected = 100001 * static_cast<double>(1e-4f) * static_cast<double>(1e-4f);
  CHECK(norm(kernels, {parameter(0, 0, 100001, 1)}, g, 1)[0] == Approx(expected).epsilon(1e-13));
}

TEST_CASE("replicated parameters count on tensor rank 0 alone, shards on every rank, tied copies nowhere") {
  Param replicated = parameter(0, 0, 5, 1), shard = parameter(1, 5, 5, 1), tied = parameter(2, 10, 5, 1);
  shard.shard_dim = 0;
  tied.in_norm = false;
  tied.shard_dim = 0;
  Kernels kernels;
  kernels.context.tensor_size = 2;
  const Values g(15, 2.0);
  CHECK(norm(kernels, {replicated, shard, tied}, g, 3) == Values{20, 20, 0});
  kernels.context.tensor_rank = 1;
  CHECK(norm(kernels, {replicated, shard, tied}, g, 3) == Values{0, 20, 0});
}

TEST_CASE("a parameter beyond the flat buffers or the norm vector is a broken promise") {
  Kernels kernels;
  CHECK_THROWS_AS(norm(kernels, {parameter(0, 1, 5, 3)}, Values(15, 1.0), 1), ContractError);
  CHECK_THROWS_AS(norm(kernels, {parameter(1, 0, 5, 3)}, Values(15, 1.0), 1), ContractError);
  AdamWCase c = random_case(15);
  CHECK_THROWS_AS(c.run(kernels, {parameter(0, 1, 5, 3)}), ContractError);
}

TEST_CASE("the clip coefficient is torch's: min(1, clip / (norm + 1e-6))") {
  const Scalars large = clip({9, 0, 16}, 1);
  CHECK(large.grad_norm == 5);
  CHECK(large.clip_coefficient == 1 / (5 + 1e-6));
  CHECK_FALSE(large.found_nonfinite);
  CHECK(clip({0.09, 0.16}, 1).clip_coefficient == 1);
  CHECK(clip({9, 16}, 0).clip_coefficient == 1);
  CHECK(clip({9, 16}, 0).grad_norm == 5);
}

TEST_CASE("the norm vector is summed in ascending order") {
  CHECK(clip({1e16, 1, 1}, 0).grad_norm == std::sqrt(1e16));
  CHECK(clip({1, 1, 1e16}, 0).grad_norm == std::sqrt(1e16 + 2));
}

TEST_CASE("a NaN or infinite gradient anywhere is found") {
  const double bad = GENERATE(std::nan(""), kInfinity);
  const Scalars s = clip({1, bad, 4}, 1);
  CHECK(s.found_nonfinite);
  CHECK(s.clip_coefficient == 0);
  Kernels kernels;
  Values g = random_values(5000, 1);
  g[4321] = -bad;
  CHECK_FALSE(std::isfinite(norm(kernels, {parameter(0, 0, 5000, 1)}, g, 1)[0]));
}

TEST_CASE("a finite step clears the flag of the step before") {
  Kernels kernels;
  kernels.scalars.found_nonfinite = true;
  kernels.run(ClipCoefficient{1, 1}, {fp64({0.25})}, {});
  CHECK_FALSE(kernels.scalars.found_nonfinite);
}

TEST_CASE("one AdamW step by hand") {
  AdamWCase c;
  c.gradient = {0.5};
  c.weight = {1};
  c.exp_avg = c.exp_avg_sq = {0};
  Kernels kernels;
  kernels.scalars = {.learning_rate = 0.1, .bias_correction1 = 0.1, .bias_correction2 = 0.01};
  Param p = parameter(0, 0, 1, 1);
  p.decay = true;
  const auto after = c.run(kernels, {p});
  // 1 decays to 0.99; m = 0.05, v = 0.0025; the step is 0.1 (0.05/0.1) / (0.05/0.1 + 1e-8) = 0.1 - 2e-9.
  CHECK(after[0][0] == Approx(0.890000002).epsilon(1e-15));
  CHECK(after[1][0] == Approx(0.05).epsilon(1e-15));
  CHECK(after[2][0] == Approx(0.0025).epsilon(1e-15));
}

TEST_CASE("AdamW equals plain loops over several steps, with decay only where it applies") {
  constexpr std::int64_t n = 3 * 37;
  AdamWCase c = random_case(n);
  const auto dtype = GENERATE(DType::fp64, DType::fp32);
  Kernels kernels(dtype);
  Param decayed = parameter(0, 0, n / 3, 2), plain = parameter(1, n / 3 * 2, n / 3, 1);
  decayed.decay = true;
  std::vector<PlainAdamW> expected;
  for (std::size_t i = 0; i < n; ++i) expected.push_back({c.weight[i], c.exp_avg[i], c.exp_avg_sq[i]});
  for (int t = 1; t <= 5; ++t) {
    kernels.scalars = {.learning_rate = 0.01 * t,
                       .bias_correction1 = 1 - std::pow(c.op.beta1, t),
                       .bias_correction2 = 1 - std::pow(c.op.beta2, t),
                       .clip_coefficient = 0.5};
    const auto after = c.run(kernels, {decayed, plain});
    c.weight = after[0];
    c.exp_avg = after[1];
    c.exp_avg_sq = after[2];
    for (std::size_t i = 0; i < n; ++i) expected[i].step(c.gradient[i], c.op, kernels.scalars, i < n / 3 * 2);
  }
  Values weights;
  for (const PlainAdamW& e : expected) weights.push_back(e.p);
  // Five steps of a few roundings each; a tiny v turns the rounding of m/sqrt(v) into more.
  check_close(c.weight, weights, dtype == DType::fp64 ? 1e-14 : 5e-6);
}

TEST_CASE("AdamW touches no gap between parameters") {
  AdamWCase c = random_case(20);
  Kernels kernels;
  kernels.scalars.learning_rate = 0.1;
  const auto after = c.run(kernels, {parameter(0, 0, 3, 3), parameter(1, 11, 7, 1)});
  for (const std::size_t gap : {9, 10, 18, 19}) {
    CHECK(after[0][gap] == c.weight[gap]);
    CHECK(after[1][gap] == c.exp_avg[gap]);
  }
  CHECK(after[0][8] != c.weight[8]);
  CHECK(after[0][11] != c.weight[11]);
}

TEST_CASE("AdamW does nothing in a step whose gradients were not finite") {
  AdamWCase c = random_case(15);
  Kernels kernels;
  kernels.scalars.learning_rate = 0.1;
  kernels.scalars.found_nonfinite = true;
  CHECK(c.run(kernels, {parameter(0, 0, 5, 3)}) == std::vector{c.weight, c.exp_avg, c.exp_avg_sq});
}

}  // namespace tandem::exec::test
