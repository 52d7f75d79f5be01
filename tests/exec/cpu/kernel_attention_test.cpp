#include "tests/exec/cpu/attention_cases.hpp"

namespace tandem::exec::test {
namespace {

struct Setting {
  AttentionDims dims;
  double dropout = 0;
  bool alibi = false;

  std::int64_t tokens() const { return dims.batch * dims.seq; }
  std::int64_t qkv_size() const { return tokens() * dims.heads * 3 * dims.head_dim; }
  std::int64_t context_size() const { return tokens() * dims.heads * dims.head_dim; }
  std::int64_t square_size() const { return dims.batch * dims.heads * dims.seq * dims.seq; }
};

struct Forward {
  Values scores, probs, dropped, context;
};

Forward forward(Kernels& kernels, const Setting& s, const Values& qkv) {
  Forward f;
  f.scores = kernels.one(AttentionScores{s.dims}, {real(qkv), real(qkv)}, s.square_size());
  std::vector<Operand> out(s.dropout > 0 ? 2 : 1, result(s.square_size()));
  const auto softmax = kernels.run(AttentionSoftmax{s.dims, s.dropout, s.alibi}, {real(f.scores)}, out);
  f.probs = softmax.front();
  f.dropped = softmax.back();
  f.context = kernels.one(AttentionContext{s.dims}, {real(f.dropped), real(qkv)}, s.context_size());
  return f;
}

Values backward(Kernels& kernels, const Setting& s, const Values& qkv, const Values& dcontext) {
  const Forward f = forward(kernels, s, qkv);
  const auto first = kernels.run(AttentionContextBackward{s.dims}, {real(dcontext), real(f.dropped), real(qkv)},
                                 {result(s.square_size()), result(s.qkv_size())});
  const Values dscores =
      kernels.one(AttentionSoftmaxBackward{s.dims, s.dropout}, {real(first[0]), real(f.probs)}, s.square_size());
  return kernels
      .run(AttentionScoresBackward{s.dims}, {real(dscores), real(qkv), real(qkv), real(first[1])}, {real(first[1]), same_as(0)})
      .front();
}

// One query of one head, by plain loops over qkv's documented layout.
struct PlainHead {
  const Setting& s;
  const Values& qkv;
  std::int64_t sequence, head;
  double slope;

  double at(std::int64_t position, int part, std::int64_t dim) const {
    const std::int64_t row = sequence * s.dims.seq + position;
    return qkv[static_cast<std::size_t>(((row * s.dims.heads + head) * 3 + part) * s.dims.head_dim + dim)];
  }
  double score(std::int64_t q, std::int64_t k) const {
    double sum = 0;
    for (std::int64_t d = 0; d < s.dims.head_dim; ++d) sum += at(q, 0, d) * at(k, 1, d);
    return sum / std::sqrt(static_cast<double>(s.dims.head_dim)) + slope * static_cast<double>(k - q);
  }
  Values context(std::int64_t q) const {
    double total = 0;
    Values sum(static_cast<std::size_t>(s.dims.head_dim));
    for (std::int64_t k = 0; k <= q; ++k) total += std::exp(score(q, k));
    for (std::int64_t k = 0; k <= q; ++k) {
      const double p = std::exp(score(q, k)) / total;
      for (std::int64_t d = 0; d < s.dims.head_dim; ++d) sum[static_cast<std::size_t>(d)] += p * at(k, 2, d);
    }
    return sum;
  }
};

Values plain_context(const Setting& s, const Values& qkv) {
  Values all;
  for (std::int64_t r = 0; r < s.tokens(); ++r) {
    for (std::int64_t h = 0; h < s.dims.heads; ++h) {
      const PlainHead head{s, qkv, r / s.dims.seq, h, s.alibi ? reference_slope(h, s.dims.heads) : 0};
      all = concatenated(all, head.context(r % s.dims.seq));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("attention equals plain loops over sequences, heads, queries and keys") {
  const auto dims = GENERATE(AttentionDims{3, 7, 5, 11}, AttentionDims{1, 1, 1, 3}, AttentionDims{2, 3, 37, 9},
                             AttentionDims{1, 12, 70, 5});
  const Setting s{dims, 0, GENERATE(false, true)};
  const Values qkv = random_values(s.qkv_size(), 1), expected = plain_context(s, qkv);
  Kernels doubles(DType::fp64), floats(DType::fp32);
  check_close(forward(doubles, s, qkv).context, expected, 1e-14);
  check_close(forward(floats, s, qkv).context, expected, 1e-6);
}

TEST_CASE("no query sees a later key, and the probabilities of each query sum to one") {
  const Setting s{{2, 3, 41, 5}};
  Kernels kernels;
  const Values probs = forward(kernels, s, random_values(s.qkv_size(), 2)).probs;
  for (std::int64_t row = 0; row < s.square_size() / s.dims.seq; ++row) {
    const Values p = slice(probs, row * s.dims.seq, s.dims.seq);
    const std::int64_t query = row % s.dims.seq;
    double sum = 0;
    for (std::int64_t k = 0; k <= query; ++k) sum += p[static_cast<std::size_t>(k)];
    CHECK(sum == Approx(1).epsilon(1e-14));
    for (std::int64_t k = query + 1; k < s.dims.seq; ++k) REQUIRE(p[static_cast<std::size_t>(k)] == 0);
  }
}

TEST_CASE("scores beyond the diagonal may be anything, even NaN") {
  const Setting s{{1, 2, 13, 3}};
  Kernels kernels;
  Values scores = random_values(s.square_size(), 3), dprobs = random_values(s.square_size(), 4);
  const AttentionSoftmax softmax{s.dims, 0, false};
  const Values probs = kernels.one(softmax, {real(scores)}, s.square_size());
  const AttentionSoftmaxBackward back{s.dims, 0};
  const Values dscores = kernels.one(back, {real(dprobs), real(probs)}, s.square_size());
  for (std::int64_t i = 0; i < s.square_size(); ++i) {
    if (i % 13 > i / 13 % 13) scores[static_cast<std::size_t>(i)] = dprobs[static_cast<std::size_t>(i)] = std::nan("");
  }
  CHECK(kernels.one(softmax, {real(scores)}, s.square_size()) == probs);
  CHECK(kernels.one(back, {real(dprobs), real(probs)}, s.square_size()) == dscores);
}

TEST_CASE("softmax survives scores that overflow exp") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  Kernels kernels(dtype);
  const AttentionDims dims{1, 1, 3, 1};
  const Values p =
      kernels.one(AttentionSoftmax{dims, 0, false}, {real({5000, 0, 0, 5000, 5000, 0, 5000, 0, -5000})}, 9);
  CHECK(p == Values{1, 0, 0, 0.5, 0.5, 0, 1, 0, 0});
}

TEST_CASE("ALiBi slopes are the paper's, counted over the heads of all tensor ranks") {
  const auto [local, size] = GENERATE(table<int, int>({{8, 1}, {2, 4}, {3, 4}, {7, 1}, {4, 28}}));
  Kernels kernels;
  kernels.context.tensor_size = size;
  const AttentionDims dims{1, local, 2, 1};
  for (int rank = 0; rank < size; ++rank) {
    kernels.context.tensor_rank = rank;
    const Values p = kernels.one(AttentionSoftmax{dims, 0, true}, {real(Values(4 * local, 0.0))}, 4 * local);
    for (int h = 0; h < local; ++h) {
      // With equal scores the ratio of the two keys of query 1 is exp(-slope).
      const auto row = static_cast<std::size_t>(4 * h + 2);
      CHECK(std::log(p[row + 1] / p[row]) == Approx(reference_slope(rank * local + h, local * size)).epsilon(1e-13));
    }
  }
}

TEST_CASE("ALiBi slopes of 8 heads are 1/2 ... 1/256") {
  Kernels kernels;
  const Values p = kernels.one(AttentionSoftmax{{1, 8, 2, 1}, 0, true}, {real(Values(32, 0.0))}, 32);
  for (int h = 0; h < 8; ++h) {
    const auto row = static_cast<std::size_t>(4 * h + 2);
    CHECK(std::log(p[row + 1] / p[row]) == Approx(std::pow(0.5, h + 1)).epsilon(1e-13));
  }
}

TEST_CASE("attention's gradient equals slopes along every axis, with and without dropout and ALiBi") {
  const Setting s{{3, 2, 5, 7}, GENERATE(0.0, 0.3), GENERATE(false, true)};
  const Values qkv = random_values(s.qkv_size(), 1), dcontext = random_values(s.context_size(), 2);
  Kernels kernels;
  kernels.context.layer = 4;
  const Values dqkv = backward(kernels, s, qkv, dcontext);
  check_gradient([&](const Values& v) { return dot(dcontext, forward(kernels, s, v).context); }, qkv, dqkv);
}

TEST_CASE("attention's gradient equals slopes along random directions at larger sizes") {
  const Setting s{{2, 3, 43, 11}, 0.2, false};
  const Values qkv = random_values(s.qkv_size(), 1), dcontext = random_values(s.context_size(), 2);
  Kernels kernels;
  const Values dqkv = backward(kernels, s, qkv, dcontext);
  check_directions([&](const Values& v) { return dot(dcontext, forward(kernels, s, v).context); }, qkv, dqkv);
}

TEST_CASE("each half of attention's backward writes its own part of dqkv") {
  const Setting s{{2, 3, 5, 7}};
  Kernels kernels;
  const Values qkv = random_values(s.qkv_size(), 1);
  const auto first =
      kernels.run(AttentionContextBackward{s.dims},
                  {real(random_values(s.context_size(), 2)), real(random_values(s.square_size(), 3)), real(qkv)},
                  {result(s.square_size()), result(s.qkv_size())});
  const Values both =
      kernels
          .run(AttentionScoresBackward{s.dims},
               {real(random_values(s.square_size(), 4)), real(qkv), real(qkv), real(first[1])}, {real(first[1]), same_as(0)})
          .front();
  for (std::size_t i = 0; i < both.size(); ++i) {
    const bool value_part = i / 7 % 3 == 2;
    REQUIRE(std::isnan(first[1][i]) == !value_part);
    REQUIRE_FALSE(std::isnan(both[i]));
    if (value_part) REQUIRE(both[i] == first[1][i]);
  }
}

TEST_CASE("attention books the full square of every product it calls") {
  const Setting s{{3, 2, 5, 7}};
  Kernels kernels;
  const std::int64_t one_product = 3 * 2 * (2 * 5 * 5 * 7);
  forward(kernels, s, random_values(s.qkv_size(), 1));
  CHECK(kernels.backend->counters().gemm_flops == 2 * one_product);
  backward(kernels, s, random_values(s.qkv_size(), 1), random_values(s.context_size(), 2));
  CHECK(kernels.backend->counters().gemm_flops == (2 + 2 + 4) * one_product);
}

}  // namespace tandem::exec::test
