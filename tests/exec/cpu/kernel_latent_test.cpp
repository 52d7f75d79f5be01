// Latent attention's operations: norms of a part of each row, heads from compressed rows.
#include <cmath>
#include <numbers>

#include "exec/shared/rotary_angles.hpp"
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kRows = 5, kCols = 7, kRest = 4;
constexpr double kEpsilon = 1e-3;

struct Compressed {
  Values x = random_values(kRows * (kCols + kRest), 1), gamma = random_values(kCols, 2), dy = random_values(kRows * kCols, 3),
         dothers = random_values(kRows * kRest, 4);

  std::vector<Values> forward(Kernels& kernels) const {
    return kernels.run(LatentNorm{kRows, kCols, kRest, kEpsilon}, {real(x), real(gamma)},
                       {result(kRows * kCols), result(kRows * kRest), result(2 * kRows)});
  }
  std::vector<Values> backward(Kernels& kernels) const {
    return kernels.run(LatentNormBackward{kRows, kCols, kRest},
                       {real(dy), real(dothers), real(x), real(forward(kernels)[2]), real(gamma)},
                       {result(kRows * (kCols + kRest)), result(kCols)});
  }
};

AttentionDims heads_of(std::int64_t value_dim) {
  AttentionDims d{2, 3, 4, 6};
  d.value_dim = value_dim;
  return d;
}

struct Heads {
  LatentHeads op;
  Values q, kv, shared, dqkv;

  explicit Heads(std::int64_t value_dim, double scale)
      : op{heads_of(value_dim), 2, scale}, q(random_values(op.rows() * op.dims.q_width(), 5)),
        kv(random_values(op.rows() * op.kv_width(), 6)), shared(random_values(op.rows() * op.turned, 7)),
        dqkv(random_values(op.rows() * op.dims.qkv_width(), 8)) {}

  Values forward(Kernels& kernels) const {
    return kernels.one(op, {real(q), real(kv), real(shared)}, op.rows() * op.dims.qkv_width());
  }
  std::vector<Values> backward(Kernels& kernels) const {
    return kernels.run(LatentHeadsBackward{op.dims, op.turned, op.query_scale}, {real(dqkv)},
                       {result(op.rows() * op.dims.q_width()), result(op.rows() * op.kv_width()), result(op.rows() * op.turned)});
  }
};

}  // namespace

TEST_CASE("the norm of a row's first columns is their RMSNorm, and the rest goes on as it is") {
  Kernels kernels;
  const Compressed c;
  const auto got = c.forward(kernels);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const Values row = slice(c.x, r * (kCols + kRest), kCols);
    const auto alone = kernels.run(LayerNorm{1, kCols, kEpsilon, true}, {real(row), real(c.gamma)}, {result(kCols), result(2)});
    check_close(slice(got[0], r * kCols, kCols), alone[0], 4e-16);
    CHECK(slice(got[1], r * kRest, kRest) == slice(c.x, r * (kCols + kRest) + kCols, kRest));
    check_close(slice(got[2], 2 * r, 2), alone[1], 4e-16);
  }
}

TEST_CASE("gradients of such a norm equal slopes") {
  Kernels kernels;
  const Compressed c;
  const auto got = c.backward(kernels);
  const auto loss = [&](auto member) {
    return [&, member](const Values& v) {
      Compressed moved = c;
      moved.*member = v;
      const auto out = moved.forward(kernels);
      return dot(c.dy, out[0]) + dot(c.dothers, out[1]);
    };
  };
  check_gradient(loss(&Compressed::x), c.x, got[0]);
  check_gradient(loss(&Compressed::gamma), c.gamma, got[1]);
}

TEST_CASE("heads of latent attention have their own queries, values and part of the keys, and one part in common") {
  const std::int64_t value_dim = GENERATE(0, 3, 9);
  const double scale = GENERATE(1.0, 1.5);
  Kernels kernels;
  const Heads c(value_dim, scale);
  const Values got = c.forward(kernels);
  const AttentionDims& d = c.op.dims;
  Values expected;
  for (std::int64_t row = 0; row < c.op.rows(); ++row)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      for (const double v : slice(c.q, (row * d.heads + h) * d.head_dim, d.head_dim)) expected.push_back(scale * v);
      for (const double v : slice(c.shared, row * 2, 2)) expected.push_back(v);
      const std::int64_t own = d.head_dim - 2 + d.value_width();
      for (const double v : slice(c.kv, (row * d.heads + h) * own, own)) expected.push_back(v);
    }
  CHECK(got == expected);
}

TEST_CASE("gradients of such heads equal slopes, the common part's summed over them") {
  Kernels kernels;
  const Heads c(9, 1.5);
  const auto got = c.backward(kernels);
  const auto loss = [&](auto member) {
    return [&, member](const Values& v) {
      Heads moved = c;
      moved.*member = v;
      return dot(c.dqkv, moved.forward(kernels));
    };
  };
  check_gradient(loss(&Heads::q), c.q, got[0]);
  check_gradient(loss(&Heads::kv), c.kv, got[1]);
  check_gradient(loss(&Heads::shared), c.shared, got[2]);
}

TEST_CASE("yarn goes between other numbers of turns where it is told, and multiplies nothing where it is told") {
  Rotary op{AttentionDims{1, 1, 4, 8}, 10000, false, RopeScalingKind::yarn, 4};
  op.original = 4;
  op.fast = 0.05;
  op.slow = 0.001;
  // Pairs turn as often where their number is 8 ln(4 / (2 pi turns)) / (2 ln 10000): 1.1 and 2.8, rounded outwards to 1 and 3.
  for (const auto& [pair, stretched] : {std::pair{0, 0.0}, {1, 0.0}, {2, 0.5}, {3, 1.0}}) {
    const double plain = std::pow(10000, -pair / 4.0);
    CHECK(rotary_frequency(op, pair) == Approx(plain * (1 - stretched) + plain / 4 * stretched).epsilon(1e-14));
  }
  CHECK(rotary_length(op) == Approx(1 + 0.1 * std::log(4)));
  op.fractional = true;  // the same two numbers without rounding
  const double low = 8 * std::log(4 / (0.05 * 2 * std::numbers::pi)) / (2 * std::log(10000.0));
  const double high = 8 * std::log(4 / (0.001 * 2 * std::numbers::pi)) / (2 * std::log(10000.0));
  const double stretched = (2 - low) / (high - low);
  CHECK(rotary_frequency(op, 2) == Approx((1 - stretched) / 100 + stretched / 400).epsilon(1e-14));
  CHECK(rotary_frequency(op, 3) == Approx(std::pow(10000, -0.75) / 4).epsilon(1e-14));
  op.keeps_length = true;
  CHECK(rotary_length(op) == 1);
}

}  // namespace tandem::exec::test
