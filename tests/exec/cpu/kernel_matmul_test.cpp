#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

struct Stored {
  const Values& data;
  std::int64_t rows, cols;
  bool transposed;
  double at(std::int64_t r, std::int64_t c) const {
    return data[static_cast<std::size_t>(transposed ? c * rows + r : r * cols + c)];
  }
};

Values plain_product(const MatMul& op, const Values& a, const Values& b, const Values& bias) {
  const Stored left{a, op.m, op.k, op.trans_a}, right{b, op.k, op.n, op.trans_b};
  Values c;
  for (std::int64_t i = 0; i < op.m; ++i) {
    for (std::int64_t j = 0; j < op.n; ++j) {
      double sum = op.bias ? bias[static_cast<std::size_t>(j)] : 0;
      for (std::int64_t l = 0; l < op.k; ++l) sum += left.at(i, l) * right.at(l, j);
      c.push_back(sum);
    }
  }
  return c;
}

Values product(Kernels& kernels, const MatMul& op, const Values& a, const Values& b, const Values& bias = {}) {
  return kernels.one(op, op.bias ? std::vector{real(a), real(b), real(bias)} : std::vector{real(a), real(b)},
                     op.m * op.n);
}

}  // namespace

TEST_CASE("matrix products equal plain loops for every transposition, with and without bias") {
  const auto [m, n, k] = GENERATE(table<int, int, int>(
      {{1, 1, 1}, {1, 7, 5}, {7, 1, 5}, {3, 5, 7}, {2, 3, 1}, {33, 45, 19}, {67, 131, 97}, {5, 300, 70}}));
  const bool trans_a = GENERATE(false, true), trans_b = GENERATE(false, true), bias = GENERATE(false, true);
  const MatMul op{m, n, k, trans_a, trans_b, bias};
  const Values a = random_values(m * k, 1), b = random_values(k * n, 2), c = random_values(n, 3);
  Kernels doubles(DType::fp64), floats(DType::fp32);
  const Values expected = plain_product(op, a, b, c);
  check_close(product(doubles, op, a, b, c), expected, 1e-14);  // k <= 97 terms in another order
  check_close(product(floats, op, a, b, c), expected, 4e-6);    // the same in units of 2^-24
}

TEST_CASE("a matrix product books 2mnk for what it multiplied") {
  Kernels kernels;
  product(kernels, MatMul{3, 5, 7}, random_values(21, 1), random_values(35, 2));
  CHECK(kernels.backend->counters().gemm_flops == 2 * 3 * 5 * 7);
  product(kernels, MatMul{11, 2, 13, true, true, true}, random_values(143, 1), random_values(26, 2),
          random_values(2, 3));
  CHECK(kernels.backend->counters().gemm_flops == 2 * 3 * 5 * 7 + 2 * 11 * 2 * 13);
}

TEST_CASE("the gradients of y = x w^T + b are two matrix products and a column sum") {
  constexpr std::int64_t rows = 3, in = 7, out = 5;
  const Values x = random_values(rows * in, 1), w = random_values(out * in, 2), b = random_values(out, 3);
  const Values dy = random_values(rows * out, 4);
  Kernels kernels;
  const MatMul forward{rows, out, in, false, true, true};
  const auto loss = [&](const Values& x_, const Values& w_, const Values& b_) {
    return dot(dy, product(kernels, forward, x_, w_, b_));
  };
  check_gradient([&](const Values& v) { return loss(v, w, b); }, x, product(kernels, {rows, in, out}, dy, w));
  check_gradient([&](const Values& v) { return loss(x, v, b); }, w, product(kernels, {out, in, rows, true}, dy, x));
  check_gradient([&](const Values& v) { return loss(x, w, v); }, b, kernels.one(BiasGrad{rows, out}, {real(dy)}, out));
}

TEST_CASE("a bias gradient adds rows in ascending order") {
  // 1e16 + 1 - 1e16 is 0 from the left in doubles and 1 in any other order.
  Kernels kernels;
  CHECK(kernels.one(BiasGrad{3, 2}, {real({1e16, 1, 1, 2, -1e16, 3})}, 2) == Values{0, 6});
}

}  // namespace tandem::exec::test
