// Attention that sees a window of keys, with sinks and without: against plain loops and slopes.
#include "tests/exec/cpu/attention_cases.hpp"

namespace tandem::exec::test {
namespace {

WholeAttention windowed(std::int64_t length, std::int64_t window, bool chunked) {
  WholeAttention a{2, 4, 2, length, length, 3};
  a.window = window;
  a.chunked = chunked;
  return a;
}

Values sinks_of(const WholeAttention& a) { return random_values(a.heads, 31); }

struct Gradient {
  Qkv of_qkv;
  Values of_sinks;
};

Gradient with_sinks_backward(Kernels& kernels, const WholeAttention& a, const Qkv& x, const Values& dcontext) {
  const Layout all = whole_layout(a, a.queries);
  const FlashResult f = flash(kernels, a, x);
  FlashAttentionBackward op{a.dims(), a.dropout, a.alibi};
  op.sinks = true;
  const Operand qkv = real(all.qkv(x));
  const auto out = kernels.run(op, {real(dcontext), qkv, qkv, real(f.context), real(f.stats), real(a.sinks)},
                               {result(all.qkv_size()), same_as(0), result(a.heads)});
  Gradient g{a.zeros(), out[2]};
  all.add_qkv(out[0], g.of_qkv);
  return g;
}

}  // namespace

TEST_CASE("a query in a window sees the last keys, or those of its chunk") {
  CHECK(first_key_seen(9, 0, false) == 0);
  CHECK(first_key_seen(2, 4, false) == 0);
  CHECK(first_key_seen(9, 4, false) == 6);
  CHECK(first_key_seen(9, 4, true) == 8);
  CHECK(first_key_seen(7, 4, true) == 4);
  for (const bool chunked : {false, true})
    for (const std::int64_t window : {0, 1, 3, 4, 11, 12, 40}) {
      std::int64_t pairs = 0;
      for (std::int64_t q = 0; q < 12; ++q) pairs += q + 1 - first_key_seen(q, window, chunked);
      CAPTURE(window, chunked);
      CHECK(pairs_seen(12, window, chunked) == pairs);
    }
}

TEST_CASE("flash attention in a window equals plain loops, blocks and tiles of queries included") {
  const auto length = GENERATE(1, 12, 70, 150);
  WholeAttention a = windowed(length, GENERATE(1, 3, 17, 64, 100), GENERATE(false, true));
  a.alibi = GENERATE(false, true);
  a.dropout = GENERATE(0.0, 0.3);
  check_flash(a);
}

TEST_CASE("with a score matrix a window gives the same") {
  WholeAttention a = windowed(37, GENERATE(1, 5, 17), GENERATE(false, true));
  a.alibi = GENERATE(false, true);
  a.dropout = GENERATE(0.0, 0.3);
  Kernels kernels;
  const Qkv x = a.random(1);
  AttentionDims d = a.dims();
  const Layout all = whole_layout(a, 37);
  const std::int64_t square = a.batch * a.heads * 37 * 37;
  const Operand qkv = real(all.qkv(x));
  const Values scores = kernels.one(AttentionScores{d}, {qkv, qkv}, square);
  const std::vector<Operand> out(a.dropout > 0 ? 2 : 1, result(square));
  const auto probs = kernels.run(AttentionSoftmax{d, a.dropout, a.alibi}, {real(scores)}, out);
  const Values context = kernels.one(AttentionContext{d}, {real(probs.back()), qkv}, a.q_size());
  check_close(context, plain_attention(a, x, kernels.on_host()), 1e-14);
  AttentionSoftmax mask{d, 0, a.alibi}, rest{d, 0, false};
  mask.part = SoftmaxPart::mask, rest.part = SoftmaxPart::softmax;
  const Values masked = kernels.one(mask, {real(scores)}, square);
  check_close(kernels.one(rest, {real(masked)}, square), probs.front(), 1e-15);
}

TEST_CASE("the gradient of flash attention in a window equals slopes") {
  WholeAttention a = windowed(7, GENERATE(1, 3, 4), GENERATE(false, true));
  a.batch = 1;
  a.dropout = GENERATE(0.0, 0.3);
  check_flash_gradient(a);
}

TEST_CASE("a sink joins the sum of a head's exponentials and takes no value") {
  WholeAttention a = windowed(70, GENERATE(0, 5), false);
  a.sinks = sinks_of(a);
  a.dropout = GENERATE(0.0, 0.3);
  check_flash(a);
}

TEST_CASE("attention with sinks has the gradient of slopes, the sinks' too") {
  WholeAttention a = windowed(6, GENERATE(0, 3), false);
  a.batch = 1;
  a.sinks = sinks_of(a);
  a.dropout = GENERATE(0.0, 0.3);
  Kernels kernels;
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.q_size(), 7);
  const Gradient g = with_sinks_backward(kernels, a, x, dcontext);
  const auto of_x = [&](const Values& v) { return dot(dcontext, flash(kernels, a, unflat(a, v)).context); };
  check_gradient(of_x, flat(x), flat(g.of_qkv));
  const auto of_sinks = [&](const Values& v) {
    WholeAttention b = a;
    b.sinks = v;
    return dot(dcontext, flash(kernels, b, x).context);
  };
  check_gradient(of_sinks, a.sinks, g.of_sinks);
}

TEST_CASE("attention in a window books the pairs that are seen, as the graph states them") {
  WholeAttention a = windowed(37, GENERATE(5, 36, 37, 50), GENERATE(false, true));
  Kernels kernels;
  flash(kernels, a, a.random(1));
  CHECK(kernels.backend->counters().gemm_flops == matrix_flops(FlashAttention{a.dims(), 0, false}).count());
}

}  // namespace tandem::exec::test
