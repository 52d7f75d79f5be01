// Products of bf16 as the processor multiplies them.
#include <cmath>
#include <random>
#include <vector>

#include "exec/cpu/gemm/gemm.hpp"
#include "exec/cpu/scratch.hpp"
#include "exec/cpu/team_product.hpp"
#include "tests/catch.hpp"

namespace tandem::exec::cpu {
namespace {

struct Shape {
  std::int64_t m, n, k;
};

struct Factors {
  ScratchArray<Bf16> a, b;
};

/// Normal numbers, the same for the same seed.
void fill(ScratchArray<Bf16>& array, std::int64_t elements, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < elements; ++i) array.data()[i] = {to_bf16(normal(engine))};
}

Factors factors(const Shape& s) {
  Factors f{ScratchArray<Bf16>(s.m * s.k), ScratchArray<Bf16>(s.k * s.n)};
  fill(f.a, s.m * s.k, 1);
  fill(f.b, s.k * s.n, 2);
  return f;
}

Product<float, Bf16> product(const Shape& s, const Factors& f, bool turn_a, bool turn_b, float* c) {
  return {s.m, s.n, s.k, {f.a.data(), turn_a ? s.m : s.k, turn_a}, {f.b.data(), turn_b ? s.k : s.n, turn_b}, c, s.n};
}

double at(const Factor<Bf16>& f, std::int64_t r, std::int64_t c) {
  return f.data[f.transposed ? c * f.stride + r : r * f.stride + c];
}

/// The most that an element of the product is off, in units of the sum of its terms' sizes.
double error(const Product<float, Bf16>& p, float before) {
  double worst = 0;
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = p.add ? before : 0, sizes = std::abs(sum);
      for (std::int64_t l = 0; l < p.k; ++l) {
        const double term = at(p.a, i, l) * at(p.b, l, j);
        sum += term;
        sizes += std::abs(term);
      }
      worst = std::max(worst, std::abs(p.c[i * p.c_stride + j] - sum) / sizes);
    }
  return worst;
}

bool cannot_run() {
  if (!multiplies_bf16()) WARN("not run: this build or this processor multiplies no bf16");
  return !multiplies_bf16();
}

}  // namespace

TEST_CASE("products of bf16 are exact products, summed in fp32") {
  if (cannot_run()) return;
  const auto [m, n, k] = GENERATE(table<int, int, int>(
      {{1, 1, 1}, {1, 7, 5}, {7, 1, 5}, {3, 5, 7}, {2, 3, 1}, {33, 45, 19}, {67, 131, 97}, {64, 48, 512}, {5, 300, 70}}));
  const bool turn_a = GENERATE(false, true), turn_b = GENERATE(false, true), add = GENERATE(false, true);
  const Shape shape{m, n, k};
  const Factors f = factors(shape);
  std::vector<float> c(static_cast<std::size_t>(m * n), 0.25F);
  Product<float, Bf16> p = product(shape, f, turn_a, turn_b, c.data());
  p.add = add;
  multiply(p);
  CHECK(error(p, 0.25F) <= 0x1p-22);  // k <= 512 sums of fp32, whose errors of 2^-24 rarely add up
}

TEST_CASE("a rank's threads compute products of bf16 with the bits of one thread") {
  if (cannot_run()) return;
  for (const Shape& shape : {Shape{256, 2304, 768}, {512, 768, 3072}, {768, 768, 256}, {1025, 1023, 129}, {700, 1000, 333}}) {
    const Factors f = factors(shape);
    const auto result = [&](std::int64_t threads) {
      Team team(threads, 1);
      std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n));
      multiply(team, product(shape, f, true, false, c.data()));
      return c;
    };
    const std::vector<float> one = result(1);
    CHECK(result(2) == one);
    CHECK(result(3) == one);
  }
}

}  // namespace tandem::exec::cpu
