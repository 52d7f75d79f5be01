// Soft caps of scores and logits, and rows that a sigmoid scales: against plain loops and slopes.
#include "tests/exec/cpu/attention_cases.hpp"

namespace tandem::exec::test {
namespace {

WholeAttention capped(std::int64_t length) {
  WholeAttention a{2, 4, 2, length, length, 3};
  a.soft_cap = 0.3;
  return a;
}

constexpr std::int64_t kRows = 5, kCols = 19, kElements = kRows * kCols;

}  // namespace

TEST_CASE("a soft cap bends what comes near it, and its gradient equals slopes") {
  const double cap = GENERATE(0.3, 2.0, 50.0);
  const Values x = random_values(kElements, 1), dy = random_values(kElements, 2);
  Values expected;
  for (const double v : x) expected.push_back(cap * std::tanh(v / cap));
  for (const DType dtype : {DType::fp64, DType::fp32}) {
    Kernels kernels(dtype);
    check_close(kernels.run(SoftCap{kElements, cap}, {real(x)}, {real(x)})[0], expected, dtype == DType::fp64 ? 1e-15 : 1e-6);
  }
  Kernels kernels;
  const auto loss = [&](const Values& v) { return dot(dy, kernels.run(SoftCap{kElements, cap}, {real(v)}, {real(v)})[0]); };
  check_gradient(loss, x, kernels.run(SoftCapBackward{kElements, cap}, {real(dy), real(expected)}, {real(dy)})[0]);
}

TEST_CASE("flash attention with a soft cap equals plain loops, ahead of ALiBi, windows and masks") {
  WholeAttention a = capped(GENERATE(1, 12, 70));
  a.alibi = GENERATE(false, true);
  a.window = GENERATE(0, 5);
  a.dropout = GENERATE(0.0, 0.3);
  check_flash(a);
}

TEST_CASE("with a score matrix a soft cap gives the same") {
  WholeAttention a = capped(17);
  a.alibi = GENERATE(false, true);
  Kernels kernels;
  const Qkv x = a.random(1);
  const AttentionDims d = a.dims();
  const std::int64_t square = a.batch * a.heads * 17 * 17;
  const Operand qkv = real(whole_layout(a, 17).qkv(x));
  const Values scores = kernels.one(AttentionScores{d}, {qkv, qkv}, square);
  const Values bent = kernels.run(SoftCap{square, a.soft_cap}, {real(scores)}, {real(scores)})[0];
  const Values probs = kernels.one(AttentionSoftmax{d, 0, a.alibi}, {real(bent)}, square);
  check_close(kernels.one(AttentionContext{d}, {real(probs), qkv}, a.q_size()), plain_attention(a, x, kernels.on_host()), 1e-14);
}

TEST_CASE("the gradient of flash attention with a soft cap equals slopes") {
  WholeAttention a = capped(7);
  a.batch = 1;
  a.alibi = GENERATE(false, true);
  a.window = GENERATE(0, 3);
  a.dropout = GENERATE(0.0, 0.3);
  check_flash_gradient(a);
}

TEST_CASE("a sigmoid of each row scales it, and the gradients of both equal slopes") {
  Kernels kernels;
  const RowGate op{kRows, kCols};
  const Values x = random_values(kElements, 1), gate = random_values(kRows, 2), dy = random_values(kElements, 3);
  const auto forward = [&](const Values& v, const Values& g) { return kernels.one(op, {real(v), real(g)}, kElements); };
  Values expected;
  for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(x[i] / (1 + std::exp(-gate[i / kCols])));
  check_close(forward(x, gate), expected, 1e-15);
  Kernels floats(DType::fp32);
  check_close(floats.one(op, {real(x), real(gate)}, kElements), expected, 1e-6);
  const auto g = kernels.run(RowGateBackward{kRows, kCols}, {real(dy), real(x), real(gate)}, {result(kElements), result(kRows)});
  check_gradient([&](const Values& v) { return dot(dy, forward(v, gate)); }, x, g[0]);
  check_gradient([&](const Values& v) { return dot(dy, forward(x, v)); }, gate, g[1]);
}

}  // namespace tandem::exec::test
