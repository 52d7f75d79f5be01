#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

// A parameter that lies at the same place in every buffer, and the whole of it as one piece.
struct Parameter {
  Param param;
  ParamPiece piece;
};

Parameter parameter(std::int64_t offset, std::int64_t count, bool decay = false) {
  Parameter p;
  p.param.offset = offset;
  p.param.rows = count;
  p.param.cols = 1;
  p.param.decay = decay;
  p.piece = {nullptr, 0, count, offset, offset, offset, true};
  return p;
}

std::vector<ParamPiece> pieces(const std::vector<Parameter>& params) {
  std::vector<ParamPiece> all;
  for (const Parameter& p : params) {
    all.push_back(p.piece);
    all.back().param = &p.param;
  }
  return all;
}

struct AdamWCase {
  AdamW op{0, 0.9, 0.99, 1e-8, 0.1, false};
  Values gradient, weight, exp_avg, exp_avg_sq;

  std::vector<Values> run(Kernels& kernels, const std::vector<Parameter>& params) {
    const auto all = pieces(params);
    kernels.pieces = all;
    op.elements = static_cast<std::int64_t>(weight.size());
    return kernels.run(op, {real(gradient)}, {real(weight), real(exp_avg), real(exp_avg_sq)});
  }
};

// torch.optim.AdamW, its documented algorithm, one element.
struct PlainAdamW {
  double p, m, v;
  void step(double g, const AdamW& op, const StepTable& s, bool decay) {
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

TEST_CASE("an accumulation that overwrites is a conversion and reads nothing of what was there") {
  Kernels floats(DType::fp32);
  const Values source = random_values(101, 1);
  CHECK(floats.run(Accumulate{101, DType::fp32, DType::fp64, true}, {real(source)}, {fp64(unwritten(101))}).front() == source);
  CHECK(floats.run(Accumulate{101, DType::fp32, DType::fp32, true}, {real(source)}, {result(101)}).front() == source);
}

TEST_CASE("a parameter beyond the optimizer's states is a broken promise") {
  Kernels kernels;
  AdamWCase c = random_case(15);
  CHECK_THROWS_AS(c.run(kernels, {parameter(1, 15)}), ContractError);
}

TEST_CASE("one AdamW step by hand") {
  AdamWCase c;
  c.gradient = {0.5};
  c.weight = {1};
  c.exp_avg = c.exp_avg_sq = {0};
  Kernels kernels;
  kernels.table = {.learning_rate = 0.1, .bias_correction1 = 0.1, .bias_correction2 = 0.01};
  const auto after = c.run(kernels, {parameter(0, 1, true)});
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
  const Parameter decayed = parameter(0, n / 3 * 2, true), plain = parameter(n / 3 * 2, n / 3);
  std::vector<PlainAdamW> expected;
  for (std::size_t i = 0; i < n; ++i) expected.push_back({c.weight[i], c.exp_avg[i], c.exp_avg_sq[i]});
  for (int t = 1; t <= 5; ++t) {
    kernels.table = {.learning_rate = 0.01 * t,
                       .bias_correction1 = 1 - std::pow(c.op.beta1, t),
                       .bias_correction2 = 1 - std::pow(c.op.beta2, t),
                       .clip_coefficient = 0.5};
    const auto after = c.run(kernels, {decayed, plain});
    c.weight = after[0];
    c.exp_avg = after[1];
    c.exp_avg_sq = after[2];
    for (std::size_t i = 0; i < n; ++i) expected[i].step(c.gradient[i], c.op, kernels.table, i < n / 3 * 2);
  }
  Values weights;
  for (const PlainAdamW& e : expected) weights.push_back(e.p);
  // Five steps of a few roundings each; a tiny v turns the rounding of m/sqrt(v) into more.
  check_close(c.weight, weights, dtype == DType::fp64 ? 1e-14 : 5e-6);
}

TEST_CASE("AdamW touches no gap between parameters") {
  AdamWCase c = random_case(20);
  Kernels kernels;
  kernels.table.learning_rate = 0.1;
  const auto after = c.run(kernels, {parameter(0, 9), parameter(11, 7)});
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
  kernels.table.learning_rate = 0.1;
  kernels.table.found_nonfinite = true;
  CHECK(c.run(kernels, {parameter(0, 15)}) == std::vector{c.weight, c.exp_avg, c.exp_avg_sq});
}

TEST_CASE("AdamW finds each buffer's part of a piece at its own place") {
  constexpr std::int64_t n = 15;
  const AdamWCase whole = random_case(n);
  Kernels kernels;
  kernels.table = {.learning_rate = 0.1, .bias_correction1 = 0.2, .bias_correction2 = 0.1};
  AdamWCase together = whole;
  const auto expected = together.run(kernels, {parameter(0, n, true)});
  // Gradients two elements further, weights five, states as they are; the piece is elements 4 .. 10 of the parameter.
  AdamWCase apart = whole;
  apart.gradient = concatenated({7, 7}, whole.gradient);
  apart.weight = concatenated({7, 7, 7, 7, 7}, whole.weight);
  Parameter p = parameter(0, n, true);
  const ParamPiece piece{&p.param, 4, 7, 2 + 4, 5 + 4, 4, true};
  kernels.pieces = {&piece, 1};
  apart.op.elements = n;
  const auto after =
      kernels.run(apart.op, {real(apart.gradient)}, {real(apart.weight), real(apart.exp_avg), real(apart.exp_avg_sq)});
  CHECK(slice(after[0], 5 + 4, 7) == slice(expected[0], 4, 7));
  CHECK(slice(after[1], 4, 7) == slice(expected[1], 4, 7));
  CHECK(slice(after[2], 4, 7) == slice(expected[2], 4, 7));
  CHECK(slice(after[0], 0, 9) == slice(apart.weight, 0, 9));
  CHECK(slice(after[1], 11, 4) == slice(apart.exp_avg, 11, 4));
}

TEST_CASE("SGD equals plain loops over several steps, with and without momentum") {
  constexpr std::int64_t n = 3 * 37;
  const double momentum = GENERATE(0.0, 0.9);
  const auto dtype = GENERATE(DType::fp64, DType::fp32);
  Kernels kernels(dtype);
  const Sgd op{n, momentum, 0.1, false};
  const std::vector<Parameter> params{parameter(0, n / 3 * 2, true), parameter(n / 3 * 2, n / 3)};
  const auto all = pieces(params);
  kernels.pieces = all;
  Values weight = random_values(n, 1), buffer(n, 0.0), expected = weight, plain_buffer = buffer;
  for (unsigned t = 1; t <= 4; ++t) {
    kernels.table = {.learning_rate = 0.01 * t, .clip_coefficient = 0.5};
    const Values gradient = random_values(n, 10 + t);
    const auto after =
        kernels.run(op, {real(gradient)}, momentum > 0 ? std::vector{real(weight), real(buffer)} : std::vector{real(weight)});
    weight = after[0];
    if (momentum > 0) buffer = after[1];
    // torch.optim.SGD, its documented algorithm with dampening 0: the first buffer is the gradient itself.
    for (std::size_t i = 0; i < n; ++i) {
      double g = gradient[i] * 0.5;
      if (i < n / 3 * 2) g += 0.1 * expected[i];
      plain_buffer[i] = t == 1 ? g : momentum * plain_buffer[i] + g;
      expected[i] -= 0.01 * t * (momentum > 0 ? plain_buffer[i] : g);
    }
  }
  check_close(weight, expected, dtype == DType::fp64 ? 1e-15 : 1e-6);
}

TEST_CASE("SGD does nothing in a step whose gradients were not finite") {
  Kernels kernels;
  kernels.table.learning_rate = 0.1;
  kernels.table.found_nonfinite = true;
  const std::vector<Parameter> params{parameter(0, 5)};
  const auto all = pieces(params);
  kernels.pieces = all;
  const Values w = random_values(5, 1), b = random_values(5, 2);
  CHECK(kernels.run(Sgd{5, 0.9, 0.1, false}, {real(random_values(5, 3))}, {real(w), real(b)}) == std::vector{w, b});
}

}  // namespace tandem::exec::test
