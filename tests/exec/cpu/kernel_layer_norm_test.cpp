#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr double kEpsilon = 1e-5;

struct Case {
  std::int64_t rows, cols;
  Values x = random_values(rows * cols, 1), gamma = random_values(cols, 2), beta = random_values(cols, 3);
  Values dy = random_values(rows * cols, 4), residual = random_values(rows * cols, 5);

  std::vector<Values> forward(Kernels& kernels) const {
    return kernels.run(LayerNorm{rows, cols, kEpsilon}, {real(x), real(gamma), real(beta)},
                       {result(rows * cols), result(rows * 2)});
  }
  double loss(Kernels& kernels) const { return dot(dy, forward(kernels)[0]); }
  std::vector<Values> backward(Kernels& kernels, bool add_residual) const {
    std::vector<Operand> in = {real(dy), real(x), real(forward(kernels)[1]), real(gamma)};
    if (add_residual) in.push_back(real(residual));
    return kernels.run(LayerNormBackward{rows, cols, add_residual}, in,
                       {result(rows * cols), result(cols), result(cols)});
  }
};

// y, then mean and 1/std of every row.
std::vector<Values> plain_layer_norm(const Case& c) {
  Values y, stats;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const Values row = slice(c.x, r * c.cols, c.cols);
    double mean = 0, variance = 0;
    for (const double v : row) mean += v / static_cast<double>(c.cols);
    for (const double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(c.cols);
    stats.insert(stats.end(), {mean, 1 / std::sqrt(variance + kEpsilon)});
    for (std::size_t i = 0; i < row.size(); ++i) {
      y.push_back((row[i] - mean) / std::sqrt(variance + kEpsilon) * c.gamma[i] + c.beta[i]);
    }
  }
  return {y, stats};
}

}  // namespace

TEST_CASE("layer normalisation equals plain loops, statistics included") {
  const auto [rows, cols] = GENERATE(table<int, int>({{3, 7}, {5, 1}, {2, 31}, {7, 33}, {3, 300}}));
  const Case c{rows, cols};
  Kernels doubles(DType::fp64), floats(DType::fp32);
  const auto expected = plain_layer_norm(c), in_double = c.forward(doubles), in_float = c.forward(floats);
  for (std::size_t i = 0; i < 2; ++i) {
    check_close(in_double[i], expected[i], 1e-14);  // sums of up to 300 terms in another order
    check_close(in_float[i], expected[i], 1e-5);    // the same in floats, and 1/std of a random row of 7
  }
}

TEST_CASE("a large common offset does not spoil the variance") {
  Case c{1, 101};
  Case shifted = c;
  for (double& v : shifted.x) v += 4096;  // exact: random values are multiples of 2^-23
  Kernels kernels;
  check_close(shifted.forward(kernels)[0], c.forward(kernels)[0], 1e-11);  // 4096 times the rounding of the mean
}

TEST_CASE("layer normalisation's gradients equal slopes along every axis") {
  const Case c{3, 7};
  Kernels kernels;
  const auto g = c.backward(kernels, false);
  const auto loss = [&](auto member) {
    return [&, member](const Values& v) {
      Case moved = c;
      moved.*member = v;
      return moved.loss(kernels);
    };
  };
  check_gradient(loss(&Case::x), c.x, g[0]);
  check_gradient(loss(&Case::gamma), c.gamma, g[1]);
  check_gradient(loss(&Case::beta), c.beta, g[2]);
}

TEST_CASE("layer normalisation's input gradient equals slopes along random directions on wide rows") {
  const Case c{5, 131};
  Kernels kernels;
  check_directions(
      [&](const Values& v) {
        Case moved = c;
        moved.x = v;
        return moved.loss(kernels);
      },
      c.x, c.backward(kernels, false)[0]);
}

TEST_CASE("the residual's gradient is added to layer normalisation's") {
  const Case c{3, 37};
  Kernels kernels;
  const auto without = c.backward(kernels, false), with = c.backward(kernels, true);
  Values sum = without[0];
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += c.residual[i];
  check_close(with[0], sum, 4e-16);  // a fused multiply-add rounds once less
  CHECK(with[1] == without[1]);
  CHECK(with[2] == without[2]);
}

TEST_CASE("gamma and beta gradients are sums over rows in ascending order") {
  const Case c{7, 5};
  Kernels kernels;
  const auto stats = c.forward(kernels)[1];
  const auto g = c.backward(kernels, false);
  for (std::int64_t col = 0; col < c.cols; ++col) {
    double dbeta = 0, dgamma = 0;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const auto at = static_cast<std::size_t>(r * c.cols + col), row = static_cast<std::size_t>(2 * r);
      dbeta += c.dy[at];
      dgamma += c.dy[at] * (c.x[at] - stats[row]) * stats[row + 1];
    }
    CHECK(g[2][static_cast<std::size_t>(col)] == dbeta);
    CHECK(g[1][static_cast<std::size_t>(col)] == Approx(dgamma).epsilon(1e-13));  // likewise
  }
}

}  // namespace tandem::exec::test
