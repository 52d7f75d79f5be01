#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

// A vocabulary padded to `ranks` shards of `cols` columns.
struct Vocabulary {
  std::int64_t rows, cols, vocab_size;
  int ranks;
  std::int64_t global_tokens = 21;

  VocabDims dims() const { return {rows, cols, vocab_size}; }
  std::int64_t padded() const { return cols * ranks; }
  Values shard(const Values& logits, int rank) const {
    Values s;
    for (std::int64_t r = 0; r < rows; ++r) s = concatenated(s, slice(logits, r * padded() + rank * cols, cols));
    return s;
  }
};

struct Result {
  double loss;
  Values dlogits;  // [rows, padded]
};

// The three operations on every rank, reduced as the runtime's all-reduces would.
class Ranks {
 public:
  Ranks(const Vocabulary& v, DType dtype) : v_(v), kernels_(dtype) { kernels_.context.tensor_size = v.ranks; }

  Result loss(const Values& logits, const std::vector<int>& targets) {
    const Values max = reduced_max(logits), sums = reduced_sums(logits, targets, max);
    Result total{0, Values(static_cast<std::size_t>(v_.rows * v_.padded()))};
    for (int rank = 0; rank < v_.ranks; ++rank) {
      const auto out = on(rank).run(CrossEntropy{v_.dims(), v_.global_tokens, true},
                                    {real(v_.shard(logits, rank)), real(max), real(sums), integers(targets)},
                                    {fp64(unwritten(1)), result(v_.rows * v_.cols)});
      total.loss = out[0][0];  // the same on every rank
      for (std::int64_t i = 0; i < v_.rows * v_.cols; ++i) {
        total.dlogits[static_cast<std::size_t>(i / v_.cols * v_.padded() + rank * v_.cols + i % v_.cols)] =
            out[1][static_cast<std::size_t>(i)];
      }
    }
    return total;
  }

 private:
  Kernels& on(int rank) {
    kernels_.context.tensor_rank = rank;
    return kernels_;
  }
  Values reduced_max(const Values& logits) {
    Values max(static_cast<std::size_t>(v_.rows), -std::numeric_limits<double>::infinity());
    for (int rank = 0; rank < v_.ranks; ++rank) {
      const Values m = on(rank).one(VocabMax{v_.dims()}, {real(v_.shard(logits, rank))}, v_.rows);
      for (std::size_t r = 0; r < m.size(); ++r) max[r] = std::max(max[r], m[r]);
    }
    return max;
  }
  Values reduced_sums(const Values& logits, const std::vector<int>& targets, const Values& max) {
    Values sums(static_cast<std::size_t>(2 * v_.rows), 0.0);
    for (int rank = 0; rank < v_.ranks; ++rank) {
      const Values s = on(rank).one(VocabExpSum{v_.dims()},
                                    {real(v_.shard(logits, rank)), real(max), integers(targets)}, 2 * v_.rows);
      for (std::size_t r = 0; r < s.size(); ++r) sums[r] += s[r];
    }
    return sums;
  }

  Vocabulary v_;
  Kernels kernels_;
};

double plain_loss(const Vocabulary& v, const Values& logits, const std::vector<int>& targets) {
  double loss = 0;
  for (std::int64_t r = 0; r < v.rows; ++r) {
    const Values x = slice(logits, r * v.padded(), v.vocab_size);
    double sum = 0;
    for (const double e : x) sum += std::exp(e);
    loss += std::log(sum) - x[static_cast<std::size_t>(targets[static_cast<std::size_t>(r)])];
  }
  return loss / static_cast<double>(v.global_tokens);
}

const std::vector<Vocabulary> kVocabularies = {{7, 11, 11, 1}, {5, 7, 19, 3}, {3, 41, 123, 3}, {2, 5, 3, 3}};

}  // namespace

TEST_CASE("cross-entropy over shards equals plain loops over the unpadded vocabulary") {
  const Vocabulary v = kVocabularies[static_cast<std::size_t>(GENERATE(0, 1, 2, 3))];
  Values logits = random_values(v.rows * v.padded(), 1);
  for (double& x : logits) x *= 4;
  const auto targets = random_integers(v.rows, static_cast<int>(v.vocab_size), 2);
  const double expected = plain_loss(v, logits, targets);
  CHECK(Ranks(v, DType::fp64).loss(logits, targets).loss == Approx(expected).epsilon(1e-14));
  CHECK(Ranks(v, DType::fp32).loss(logits, targets).loss == Approx(expected).epsilon(1e-6));
}

TEST_CASE("cross-entropy's gradient equals slopes, and padded columns get none") {
  const Vocabulary v = kVocabularies[static_cast<std::size_t>(GENERATE(0, 1, 3))];
  const Values logits = random_values(v.rows * v.padded(), 1);
  const auto targets = random_integers(v.rows, static_cast<int>(v.vocab_size), 2);
  Ranks ranks(v, DType::fp64);
  const Values g = ranks.loss(logits, targets).dlogits;
  check_gradient([&](const Values& x) { return ranks.loss(x, targets).loss; }, logits, g);
  for (std::int64_t i = 0; i < v.rows * v.padded(); ++i) {
    if (i % v.padded() >= v.vocab_size) REQUIRE(g[static_cast<std::size_t>(i)] == 0);
  }
}

TEST_CASE("huge logits and huge padding leave the loss finite and right") {
  const Vocabulary v{1, 4, 3, 1, 1};
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const Result r = Ranks(v, dtype).loss({30000, 0, 29999, 1e30}, {2});
  CHECK(r.loss == Approx(1 + std::log1p(std::exp(-1.0))).epsilon(1e-6));  // float's own precision
  CHECK(r.dlogits[1] == 0);
  CHECK(r.dlogits[3] == 0);
}

TEST_CASE("equal logits cost the logarithm of the vocabulary") {
  const Vocabulary v{5, 7, 19, 3, 5};
  CHECK(Ranks(v, DType::fp64).loss(Values(5 * 21, 0.25), {0, 6, 7, 13, 18}).loss ==
        Approx(std::log(19)).epsilon(1e-15));
}

TEST_CASE("the loss adds to what earlier micro-batches left, in double precision") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  Kernels kernels(dtype);
  const std::vector<Operand> in = {real({0, 0}), real({0}), real({2, 0}), integers({1})};
  const VocabDims dims{1, 2, 2};
  const double alone = kernels.run(CrossEntropy{dims, 3, true}, in, {fp64({99}), result(2)})[0][0];
  CHECK(alone == std::log(2.0) / 3);
  CHECK(kernels.run(CrossEntropy{dims, 3, false}, in, {fp64({1e6}), result(2)})[0][0] == 1e6 + alone);
}

TEST_CASE("a target outside the vocabulary is an error, in padding too") {
  Kernels kernels;
  const int target = GENERATE(4, 3);
  const std::vector<Operand> in = {real(Values(4, 0.0)), real({0}), integers({target})};
  CHECK_THROWS_AS(kernels.one(VocabExpSum{{1, 4, 3}}, in, 2), DeviceError);
}

TEST_CASE("rows without a target cost nothing and get no gradient, and the others are as if these were not there") {
  const Vocabulary v{5, 7, 19, 3}, kept{3, 7, 19, 3};
  const Values logits = random_values(v.rows * v.padded(), 1);
  const Values rest = concatenated(slice(logits, 0, v.padded()), slice(logits, 2 * v.padded(), 2 * v.padded()));
  const std::vector<int> targets{4, -1, 18, 0, -100};
  const Result with = Ranks(v, DType::fp64).loss(logits, targets), without = Ranks(kept, DType::fp64).loss(rest, {4, 18, 0});
  CHECK(with.loss == without.loss);
  CHECK(slice(with.dlogits, 0, v.padded()) == slice(without.dlogits, 0, v.padded()));
  CHECK(slice(with.dlogits, 2 * v.padded(), 2 * v.padded()) == slice(without.dlogits, v.padded(), 2 * v.padded()));
  CHECK(slice(with.dlogits, v.padded(), v.padded()) == Values(static_cast<std::size_t>(v.padded()), 0.0));
  CHECK(slice(with.dlogits, 4 * v.padded(), v.padded()) == Values(static_cast<std::size_t>(v.padded()), 0.0));
}

TEST_CASE("with the whole vocabulary on every rank each has the loss of one rank") {
  const Vocabulary v{5, 7, 6, 1};
  const Values logits = random_values(35, 1);
  const std::vector<int> targets{0, 5, -1, 3, 2};
  const Result alone = Ranks(v, DType::fp64).loss(logits, targets);
  Kernels kernels;
  kernels.context.tensor_size = 3;
  kernels.context.tensor_rank = 2;
  VocabDims dims = v.dims();
  dims.whole = true;
  const Values max = kernels.one(VocabMax{dims}, {real(logits)}, 5);
  const Values sums = kernels.one(VocabExpSum{dims}, {real(logits), real(max), integers(targets)}, 10);
  const auto out = kernels.run(CrossEntropy{dims, v.global_tokens, true}, {real(logits), real(max), real(sums), integers(targets)},
                               {fp64(unwritten(1)), result(35)});
  CHECK(out[0][0] == alone.loss);
  CHECK(out[1] == alone.dlogits);
}

TEST_CASE("a NaN logit makes the loss NaN") {
  const Vocabulary v{1, 3, 3, 1};
  CHECK(std::isnan(Ranks(v, DType::fp64).loss({0, std::nan(""), 0}, {0}).loss));
}

TEST_CASE("a weight of a loss multiplies it and its gradient") {
  const VocabDims dims{3, 5, 5, true};
  const Values logits{0.3, -1, 2, 0.5, 1, 4, 1, 0.1, 2, 3, -2, 0.7, 1.5, 0, 0.2};
  for (const bool at_once : {false, true}) {
    Kernels kernels(DType::fp64);
    const std::vector<int> targets{1, -1, 4};
    const Values max = kernels.one(VocabMax{dims}, {real(logits)}, 3);
    const Values sums = kernels.one(VocabExpSum{dims}, {real(logits), real(max), integers(targets)}, 6);
    const auto run = [&](double weight) {
      const CrossEntropy op{dims, 4, true, at_once, weight};
      if (at_once) return kernels.run(op, {real(logits), integers(targets)}, {fp64({0}), result(15)});
      return kernels.run(op, {real(logits), real(max), real(sums), integers(targets)}, {fp64({0}), result(15)});
    };
    const auto one = run(1), part = run(0.25);
    CHECK(part[0][0] == one[0][0] * 0.25);
    for (std::size_t i = 0; i < 15; ++i) CHECK(part[1][i] == Approx(one[1][i] * 0.25).margin(1e-17));
  }
}

}  // namespace tandem::exec::test
