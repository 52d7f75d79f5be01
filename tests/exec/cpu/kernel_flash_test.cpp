// Attention without a score matrix, on one rank: against plain loops, slopes and the operations that keep the scores.
#include "tests/exec/cpu/attention_cases.hpp"

namespace tandem::exec::test {
namespace {

WholeAttention setting(bool causal, bool alibi, double dropout) {
  WholeAttention a;
  a.causal = causal;
  a.alibi = alibi;
  a.dropout = dropout;
  return a;
}

// Keys and queries of different lengths; sizes that no vector register divides.
WholeAttention odd(std::int64_t batch, std::int64_t heads, std::int64_t groups, std::int64_t queries, std::int64_t keys,
                   std::int64_t dim) {
  WholeAttention a{batch, heads, groups, queries, keys, dim};
  a.causal = queries == keys;
  return a;
}

// The same attention by the operations that keep the scores: what they give and the gradients.
struct ScoresPath {
  Values context, stats;
  Qkv gradient;
};
ScoresPath by_scores(Kernels& kernels, const WholeAttention& a, const Qkv& x, const Values& dcontext) {
  AttentionDims d = a.dims();
  d.q_packed = d.kv_packed = false;
  const Layout q = whole_layout(a, a.queries), k = whole_layout(a, a.keys);
  const std::int64_t square = a.batch * a.heads * a.queries * a.keys;
  const Operand query = real(q.q(x.q)), kv = real(k.kv(x));
  const Values scores = kernels.one(AttentionScores{d}, {query, kv}, square);
  std::vector<Operand> probs_out(a.dropout > 0 ? 2 : 1, result(square));
  const auto probs = kernels.run(AttentionSoftmax{d, a.dropout, a.alibi}, {real(scores)}, probs_out);
  ScoresPath out;
  out.context = kernels.one(AttentionContext{d}, {real(probs.back()), kv}, a.context_size());
  const auto half =
      kernels.run(AttentionContextBackward{d}, {real(dcontext), real(probs.back()), kv}, {result(square), result(k.kv_size())});
  const Values dscores = kernels.one(AttentionSoftmaxBackward{d, a.dropout}, {real(half[0]), real(probs[0])}, square);
  const auto rest =
      kernels.run(AttentionScoresBackward{d}, {real(dscores), query, kv, real(half[1])}, {result(q.q_size()), real(half[1])});
  out.gradient = a.zeros();
  q.add_q(rest[0], out.gradient.q);
  k.add_kv(rest[1], out.gradient);
  return out;
}

/// Its gradient against slopes: along every axis of few numbers, along random directions of many.
void check_slopes(Kernels& kernels, const WholeAttention& a) {
  constexpr std::size_t kMostAxes = 1000;
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.context_size(), 7), at = flat(x);
  const Values gradient = flat(flash_backward(kernels, a, x, dcontext));
  const auto loss = [&](const Values& v) { return dot(dcontext, flash(kernels, a, unflat(a, v)).context); };
  at.size() <= kMostAxes ? check_gradient(loss, at, gradient) : check_directions(loss, at, gradient);
}

}  // namespace

TEST_CASE("flash attention equals plain loops") {
  const auto shape = GENERATE(odd(2, 4, 2, 12, 12, 3), odd(1, 1, 1, 1, 1, 5), odd(2, 3, 3, 37, 37, 9), odd(1, 12, 4, 70, 70, 5),
                              odd(2, 4, 2, 7, 41, 3), odd(1, 6, 2, 41, 7, 5));
  WholeAttention a = shape;
  a.alibi = GENERATE(false, true);
  a.dropout = GENERATE(0.0, 0.3);
  check_flash(a);
}

TEST_CASE("values may be narrower or wider than keys, with a score matrix and without") {
  WholeAttention a = GENERATE(odd(2, 4, 2, 12, 12, 3), odd(2, 3, 3, 37, 37, 9), odd(1, 6, 2, 41, 7, 5));
  a.value_dim = a.dim + GENERATE(-2, 4);
  check_flash(a);
  Kernels kernels;
  check_slopes(kernels, a);
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.context_size(), 7);
  const ScoresPath scores = by_scores(kernels, a, x, dcontext);
  check_close(scores.context, flash(kernels, a, x).context, 1e-14);
  check_close(flat(scores.gradient), flat(flash_backward(kernels, a, x, dcontext)), 1e-13);
}

TEST_CASE("flash attention sees all keys where it is not causal") {
  const WholeAttention a = setting(false, true, 0.2);
  Kernels kernels;
  const Qkv x = a.random(1);
  check_close(flash(kernels, a, x).context, plain_attention(a, x, kernels.on_host()), 1e-14);
}

TEST_CASE("the statistics are the logarithms of the sums of exponentials") {
  WholeAttention a{1, 1, 1, 2, 2, 1};
  Kernels kernels;
  const Values stats = flash(kernels, a, {{2, 3}, {5, 7}, {0, 0}}).stats;
  CHECK(stats[0] == Approx(10).epsilon(1e-15));
  CHECK(stats[1] == Approx(21 + std::log1p(std::exp(-6.0))).epsilon(1e-15));
}

TEST_CASE("flash attention survives scores that overflow exp") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  Kernels kernels(dtype);
  WholeAttention a{1, 1, 1, 3, 3, 1};
  const Values y = flash(kernels, a, {{5000, 5000, 5000}, {0, 1, 1}, {1, 2, 4}}).context;
  CHECK(y == Values{1, 2, 3});
}

TEST_CASE("flash attention's gradient equals slopes along every axis") {
  WholeAttention a = setting(GENERATE(true, false), GENERATE(false, true), GENERATE(0.0, 0.3));
  a.batch = 1;
  a.queries = a.keys = 5;
  Kernels kernels;
  kernels.context.layer = 4;
  check_slopes(kernels, a);
}

TEST_CASE("the gradient of flash attention from queries to other keys equals slopes") {
  WholeAttention a = GENERATE(odd(1, 4, 2, 3, 7, 3), odd(2, 2, 2, 7, 3, 5));
  a.dropout = GENERATE(0.0, 0.3);
  Kernels kernels;
  check_slopes(kernels, a);
}

TEST_CASE("with and without a score matrix attention and its gradients are the same, masks included") {
  WholeAttention a = GENERATE(odd(2, 6, 3, 37, 37, 7), odd(2, 4, 4, 9, 23, 5));
  if (a.causal) a.window = GENERATE(0, 5);
  a.alibi = GENERATE(false, true);
  a.dropout = GENERATE(0.0, 0.3);
  Kernels kernels;
  kernels.context.first_sequence = 5;
  kernels.context.layer = 2;
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.q_size(), 7);
  const ScoresPath kept = by_scores(kernels, a, x, dcontext);
  check_close(flash(kernels, a, x).context, kept.context, 1e-12);
  check_close(flat(flash_backward(kernels, a, x, dcontext)), flat(kept.gradient), 1e-12);
}

TEST_CASE("attention from queries to other keys has the gradient of slopes with a score matrix too") {
  WholeAttention a = odd(1, 4, 2, 3, 7, 3);
  a.dropout = GENERATE(0.0, 0.3);
  Kernels kernels;
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.q_size(), 7);
  check_close(by_scores(kernels, a, x, dcontext).context, plain_attention(a, x, kernels.on_host()), 1e-14);
  const auto loss = [&](const Values& v) { return dot(dcontext, by_scores(kernels, a, unflat(a, v), dcontext).context); };
  check_gradient(loss, flat(x), flat(by_scores(kernels, a, x, dcontext).gradient));
}

TEST_CASE("flash attention books the pairs that are needed, as the graph states them") {
  WholeAttention a = GENERATE(odd(2, 6, 3, 37, 37, 7), odd(2, 4, 4, 9, 23, 5));
  Kernels kernels;
  const Qkv x = a.random(1);
  const std::int64_t pairs = a.causal ? 37 * 38 / 2 : 9 * 23, product = 2 * a.batch * a.heads * pairs * a.dim;
  flash(kernels, a, x);
  CHECK(kernels.backend->counters().gemm_flops == 2 * product);
  CHECK(matrix_flops(FlashAttention{a.dims(), 0, false}).count() == 2 * product);
  flash_backward(kernels, a, x, random_values(a.q_size(), 7));
  CHECK(kernels.backend->counters().gemm_flops == (2 + 2 + 5) * product);
  CHECK(matrix_flops(FlashAttentionBackward{a.dims(), 0, false}).count() == 5 * product);
}

TEST_CASE("another site of dropout draws other masks") {
  const WholeAttention a = setting(true, false, 0.4);
  Kernels kernels;
  const Qkv x = a.random(1);
  FlashAttention op{a.dims(), 0.4, false};
  const std::vector<Operand> in{real(whole_layout(a, 12).qkv(x)), real(whole_layout(a, 12).qkv(x))},
      out{result(a.q_size()), result(2 * 4 * 12)};
  const Values first = kernels.run(op, in, out)[0];
  op.site = DropoutSite::cross_attention;
  CHECK(kernels.run(op, in, out)[0] != first);
}

}  // namespace tandem::exec::test
