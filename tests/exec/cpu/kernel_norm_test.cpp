// The global gradient norm and the norms of single tensors.
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Param parameter(std::int64_t offset, std::int64_t count, std::int32_t global_index = 0) {
  Param p;
  p.global_index = global_index;
  p.offset = offset;
  p.rows = count;
  p.cols = 1;
  return p;
}

// Elements first .. first + count - 1 of a parameter whose gradients begin at `gradients`.
ParamPiece piece(const Param& p, std::int64_t first, std::int64_t count, std::int64_t gradients = 0, bool counted = true) {
  return {&p, first, count, gradients + first, 0, 0, counted};
}

Values norm_words(Kernels& kernels, const std::vector<ParamPiece>& pieces, const Values& gradients) {
  kernels.pieces = pieces;
  const GradNorm norm{static_cast<std::int64_t>(gradients.size())};
  const Values words = kernels.run(norm, {real(gradients)}, {word_result(1)}).front();
  kernels.pieces = {};  // they are gone when this returns
  return words;
}

StepTable clip(const Values& sum, double clip_grad) {
  Kernels kernels;
  kernels.run(ClipCoefficient{clip_grad}, {words(sum)}, {});
  return kernels.table;
}

Values whole(Kernels& kernels, const Values& gradients) {
  const Param p = parameter(0, static_cast<std::int64_t>(gradients.size()));
  return norm_words(kernels, {piece(p, 0, p.rows)}, gradients);
}
double norm(const Values& gradients) {
  Kernels kernels;
  return clip(whole(kernels, gradients), 0).grad_norm;
}

// Values whose squares, and sums of a few, are no doubles: what is rounded differently then differs.
Values inexact_values(std::int64_t n, unsigned seed) {
  Values v = random_values(n, seed);
  for (double& x : v) x /= 3;
  return v;
}

// Cuts of [0, count) at multiples of 64 of offset + element.
std::vector<std::int64_t> random_cuts(std::int64_t offset, std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<std::int64_t> cuts{0};
  for (std::int64_t at = 1; at < count; ++at)
    if ((offset + at) % 64 == 0 && generator() % 3 == 0) cuts.push_back(at);
  cuts.push_back(count);
  return cuts;
}

}  // namespace

TEST_CASE("the norm is the root of the sum of squares of all gradients") {
  CHECK(norm({3, 4}) == 5);
  CHECK(norm({1e-200, 0}) == 0);  // a block's sum of squares is rounded to a double
  const Values g = random_values(20000, 1);
  long double sum = 0;
  for (const double x : g) sum += static_cast<long double>(x) * x;
  CHECK(norm(g) == Approx(static_cast<double>(std::sqrt(sum))).epsilon(1e-15));
}

TEST_CASE("the words of a norm are the same however its parameters are cut at multiples of 64") {
  const std::int64_t offset = GENERATE(0, 37, 64, 1000), count = 5003;
  const Values g = inexact_values(count, 1);
  const Param p = parameter(offset, count);
  Kernels kernels;
  const Values expected = norm_words(kernels, {piece(p, 0, count)}, g);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto cuts = random_cuts(offset, count, seed);
    std::vector<ParamPiece> pieces;
    Values summed(static_cast<std::size_t>(kExactWords), 0.0);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      pieces.push_back(piece(p, cuts[i], cuts[i + 1] - cuts[i]));
      const Values part = norm_words(kernels, {pieces.back()}, g);
      for (std::size_t w = 0; w < part.size(); ++w) summed[w] += part[w];
    }
    REQUIRE(norm_words(kernels, pieces, g) == expected);
    std::reverse(pieces.begin(), pieces.end());
    REQUIRE(norm_words(kernels, pieces, g) == expected);
    REQUIRE(clip(summed, 0).grad_norm == clip(expected, 0).grad_norm);
  }
}

TEST_CASE("a parameter's part of the norm has the same bits wherever its gradients lie") {
  const Values g = inexact_values(9001, 1);
  const Param p = parameter(128, 9001);
  Kernels kernels;
  const Values at_start = norm_words(kernels, {piece(p, 0, 9001)}, g);
  for (const std::int64_t gap : {1, 5, 64, 4096})
    CHECK(norm_words(kernels, {piece(p, 0, 9001, gap)}, concatenated(random_values(gap, 2), g)) == at_start);
}

TEST_CASE("pieces that do not count add nothing") {
  const Param a = parameter(0, 5), b = parameter(64, 5), c = parameter(128, 5);
  Kernels kernels;
  const Values g(15, 2.0);
  const Values sum = norm_words(kernels, {piece(a, 0, 5), piece(b, 0, 5, 5, false), piece(c, 0, 5, 10)}, g);
  CHECK(clip(sum, 0).grad_norm == std::sqrt(40.0));
}

TEST_CASE("the norm of float gradients is summed in double precision") {
  Kernels kernels(DType::fp32);
  const double x = static_cast<double>(1e-4f);
  CHECK(clip(whole(kernels, Values(100001, x)), 0).grad_norm == Approx(std::sqrt(100001 * x * x)).epsilon(1e-15));
}

TEST_CASE("a parameter beyond what the rank updates or beyond the sums is a broken promise") {
  Kernels kernels;
  const Param p = parameter(0, 15, 1);
  CHECK_THROWS_AS(norm_words(kernels, {ParamPiece{&p, 0, 15, 0, 0, 1, true}}, Values(15, 1.0)), ContractError);
  const std::vector<ParamPiece> pieces{piece(p, 0, 15)};
  kernels.pieces = pieces;
  CHECK_THROWS_AS(kernels.run(TensorNorms{15, 1}, {real(Values(15, 1.0))}, {word_result(1)}), ContractError);
}

TEST_CASE("the clip coefficient is torch's: min(1, clip / (norm + 1e-6))") {
  Kernels kernels;
  const Values large = whole(kernels, {3, 0, 4}), small = whole(kernels, {0.3, 0.4});
  CHECK(clip(large, 1).grad_norm == 5);
  CHECK(clip(large, 1).clip_coefficient == 1 / (5 + 1e-6));
  CHECK_FALSE(clip(large, 1).found_nonfinite);
  CHECK(clip(small, 1).clip_coefficient == 1);
  CHECK(clip(large, 0).clip_coefficient == 1);
}

TEST_CASE("a NaN or infinite gradient anywhere is found") {
  const double bad = GENERATE(std::nan(""), kInfinity, -kInfinity, 1e200);  // the last one's square is infinite
  Kernels kernels;
  Values g = random_values(5000, 1);
  g[4321] = bad;
  const StepTable s = clip(whole(kernels, g), 1);
  CHECK(s.found_nonfinite);
  CHECK(s.clip_coefficient == 0);
  CHECK_FALSE(std::isfinite(s.grad_norm));
}

TEST_CASE("a finite step clears the flag of the step before") {
  Kernels kernels;
  const Values sum = whole(kernels, {0.5});
  kernels.table.found_nonfinite = true;
  kernels.run(ClipCoefficient{1}, {words(sum)}, {});
  CHECK_FALSE(kernels.table.found_nonfinite);
}

TEST_CASE("every tensor's sum of squares stands at its global index, of all pieces that count") {
  const Values g = random_values(400, 1);
  const Param a = parameter(0, 100, 3), b = parameter(128, 200, 0), c = parameter(384, 100, 2);
  Kernels kernels;
  const std::vector<ParamPiece> pieces{piece(a, 0, 64), piece(a, 64, 36), piece(b, 0, 200, 100), piece(c, 0, 100, 300, false)};
  kernels.pieces = pieces;
  const Values sums = kernels.run(TensorNorms{400, 4}, {real(g)}, {word_result(4)}).front();
  const auto tensor = [&](std::int64_t i) { return clip(slice(sums, i * kExactWords, kExactWords), 0).grad_norm; };
  CHECK(tensor(3) == norm(slice(g, 0, 100)));
  CHECK(tensor(0) == norm(slice(g, 100, 200)));
  CHECK(tensor(1) == 0);
  CHECK(tensor(2) == 0);
}

}  // namespace tandem::exec::test
