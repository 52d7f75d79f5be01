#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

// In 64-bit mantissas, by the textbook formula with tanh.
long double gelu(long double x) {
  const long double u = std::sqrt(2 / 3.14159265358979323846264338327950288L) * (x + 0.044715L * x * x * x);
  return 0.5L * x * (1 + std::tanh(u));
}

// Where tanh(u) is not near -1: below, the textbook form itself loses every digit to cancellation.
Values grid(double from, double to) {
  Values x;
  for (int i = 0; i <= 4003; ++i) x.push_back(from + (to - from) * i / 4003);
  return x;
}

Values apply(Kernels& kernels, PointwiseKind kind, const Values& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  return kernels.one(Pointwise{n, kind}, {real(x)}, n);
}

Values derivative(Kernels& kernels, PointwiseKind kind, const Values& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  return kernels.one(PointwiseBackward{n, kind}, {real(Values(x.size(), 1.0)), real(x)}, n);
}

double worst_relative(const Values& actual, const Values& x, long double (*f)(long double)) {
  long double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double expected = f(x[i]);
    worst = std::max(worst, std::abs(actual[i] - expected) / std::max(std::abs(expected), 1e-300L));
  }
  return static_cast<double>(worst);
}

}  // namespace

TEST_CASE("GELU is accurate to a few units in the last place, also where tanh nears -1") {
  Kernels doubles(DType::fp64), floats(DType::fp32);
  // exp amplifies the rounding of its argument 2u by |2u|, which is 0.5 at x = 0.3 and 12 at x = -4.
  const Values middle = grid(-1, 8), tail = grid(-4, -1);
  CHECK(worst_relative(apply(doubles, PointwiseKind::gelu_tanh, middle), middle, gelu) < 1.0e-15);
  CHECK(worst_relative(apply(doubles, PointwiseKind::gelu_tanh, tail), tail, gelu) < 4e-15);
  Values rounded = middle;
  for (double& x : rounded) x = static_cast<float>(x);
  CHECK(worst_relative(apply(floats, PointwiseKind::gelu_tanh, rounded), rounded, gelu) < 5e-7);
}

TEST_CASE("GELU goes to 0 and to x at the ends, and passes NaN on") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  Kernels kernels(dtype);
  const Values y = apply(kernels, PointwiseKind::gelu_tanh, {-1000, -30, 0, 30, 1000, std::nan("")});
  CHECK(std::abs(y[0]) < 1e-30);
  CHECK(std::abs(y[1]) < 1e-30);
  CHECK(y[2] == 0);
  CHECK(y[3] == 30);
  CHECK(y[4] == 1000);
  CHECK(std::isnan(y[5]));
}

TEST_CASE("ReLU and its square are what their names say") {
  Kernels kernels;
  CHECK(apply(kernels, PointwiseKind::relu, {-2, 0, 3}) == Values{0, 0, 3});
  CHECK(apply(kernels, PointwiseKind::squared_relu, {-2, 0, 3}) == Values{0, 0, 9});
  CHECK(derivative(kernels, PointwiseKind::relu, {-2, 0, 3}) == Values{0, 0, 1});
  CHECK(derivative(kernels, PointwiseKind::squared_relu, {-2, 0, 3}) == Values{0, 0, 6});
  CHECK(std::isnan(apply(kernels, PointwiseKind::relu, {std::nan("")})[0]));
}

TEST_CASE("tanh is accurate to a few units in the last place and keeps its ends") {
  Kernels doubles(DType::fp64), floats(DType::fp32);
  const Values x = grid(-20, 20);
  const auto tanh = [](long double v) { return std::tanh(v); };
  CHECK(worst_relative(apply(doubles, PointwiseKind::tanh, x), x, tanh) < 1e-15);
  Values rounded = x;
  for (double& v : rounded) v = static_cast<float>(v);
  CHECK(worst_relative(apply(floats, PointwiseKind::tanh, rounded), rounded, tanh) < 5e-7);
  CHECK(apply(doubles, PointwiseKind::tanh, {-1000, 0, 1000}) == Values{-1, 0, 1});
  CHECK(std::isnan(apply(doubles, PointwiseKind::tanh, {std::nan("")})[0]));
}

TEST_CASE("activation derivatives equal slopes") {
  const auto kind = GENERATE(PointwiseKind::gelu_tanh, PointwiseKind::relu, PointwiseKind::squared_relu, PointwiseKind::tanh);
  const std::int64_t n = 3 * 37;
  Values x = random_values(n, 5);
  for (double& v : x) v = 3 * v + (v < 0 ? -0.01 : 0.01);  // away from the kink at 0
  const Values dy = random_values(n, 6);
  Kernels kernels;
  const Values dx = kernels.one(PointwiseBackward{n, kind}, {real(dy), real(x)}, n);
  check_gradient([&](const Values& v) { return dot(dy, apply(kernels, kind, v)); }, x, dx);
}

}  // namespace tandem::exec::test
