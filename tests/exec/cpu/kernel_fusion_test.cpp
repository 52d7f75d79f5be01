// Kernels that do several operations at once against those operations, and parts of operations against the whole.
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kRows = 6, kCols = 7, kAll = kRows * kCols;

Values added(const Values& a, const Values& b) {
  Values sum = a;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  return sum;
}

/// Products of values that are not exact in doubles.
Values thirds(std::int64_t n, unsigned seed) {
  Values v = random_values(n, seed);
  for (double& x : v) x /= 3;
  return v;
}

const AttentionDims kDims{2, 3, 5, 4};
constexpr std::int64_t kScores = 2 * 3 * 5 * 5;

}  // namespace

// ---- products with an activation ----

namespace {

/// Sizes for which cuBLASLt has kernels of both, and others.
struct FusedProduct {
  std::int64_t m, n, k;
  bool bias;
};

/// Rounding of one result, in sums of up to 64 terms; exactly the same where the CPU does both.
double rounding(DType dtype) {
  if (tests::test_backend() == tests::TestBackend::cpu || tests::tests_asynchronous()) return 0;
  return dtype == DType::bf16 ? 0x1p-6 : dtype == DType::fp32 ? 1e-5 : 1e-13;
}

/// Bit for bit, but where a device's compiler and library order and fuse operations as they like.
void check_same(const Values& actual, const Values& expected, DType dtype) {
  if (tests::test_backend() == tests::TestBackend::cuda) return check_close(actual, expected, rounding(dtype));
  CHECK(actual == expected);
}

}  // namespace

TEST_CASE("a product with its GELU is the product and the GELU", "[products]") {
  const DType dtype = GENERATE(DType::fp64, DType::fp32, DType::bf16);
  const FusedProduct p = GENERATE(FusedProduct{5, 7, 3, false}, FusedProduct{16, 24, 40, true}, FusedProduct{64, 128, 64, false});
  Kernels kernels(dtype);
  MatMul op{p.m, p.n, p.k, false, true, p.bias};
  std::vector<Operand> in{real(random_values(p.m * p.k, 1)), real(random_values(p.n * p.k, 2))};
  if (p.bias) in.push_back(real(random_values(p.n, 3)));
  const Values x = kernels.one(op, in, p.m * p.n);
  const Values y = kernels.one(Pointwise{p.m * p.n, PointwiseKind::gelu_tanh}, {real(x)}, p.m * p.n);
  op.activation = ProductActivation::gelu;
  const auto both = kernels.run(op, in, {result(p.m * p.n), result(p.m * p.n)});
  check_close(both[0], x, rounding(dtype));
  check_close(both[1], y, rounding(dtype));
}

TEST_CASE("a product with a GELU's gradient is the product and the gradient", "[products]") {
  const DType dtype = GENERATE(DType::fp64, DType::fp32, DType::bf16);
  const FusedProduct p = GENERATE(FusedProduct{5, 7, 3, false}, FusedProduct{16, 24, 40, false}, FusedProduct{64, 128, 64, false});
  Kernels kernels(dtype);
  MatMul op{p.m, p.n, p.k, false, false, false};
  const Operand dy = real(random_values(p.m * p.k, 1)), w = real(random_values(p.k * p.n, 2));
  const Operand x = real(random_values(p.m * p.n, 3));
  const Values da = kernels.one(op, {dy, w}, p.m * p.n);
  const Values dx = kernels.one(PointwiseBackward{p.m * p.n, PointwiseKind::gelu_tanh}, {real(da), x}, p.m * p.n);
  op.activation = ProductActivation::gelu_gradient;
  check_close(kernels.one(op, {dy, w, x}, p.m * p.n), dx, rounding(dtype));
}

TEST_CASE("a product with a GELU has the gradient of slopes, in what it multiplies and in its bias", "[products]") {
  Kernels kernels;
  const std::int64_t m = 3, n = 8, k = 4;
  const Values a = random_values(m * k, 1), w = random_values(n * k, 2), bias = random_values(n, 3), dy = random_values(m * n, 4);
  MatMul up{m, n, k, false, true, true};
  up.activation = ProductActivation::gelu;
  const auto forward = [&](const Values& at, const Values& b) {
    return kernels.run(up, {real(at), real(w), real(b)}, {result(m * n), result(m * n)});
  };
  // dy as the gradient of a product with the unit matrix, so that the fused gradient can have it.
  Values unit(static_cast<std::size_t>(n * n), 0.0);
  for (std::int64_t i = 0; i < n; ++i) unit[static_cast<std::size_t>(i * n + i)] = 1;
  MatMul back{m, n, n, false, false, false};
  back.activation = ProductActivation::gelu_gradient;
  const Values dx = kernels.one(back, {real(dy), real(unit), real(forward(a, bias)[0])}, m * n);
  check_gradient([&](const Values& at) { return dot(dy, forward(at, bias)[1]); }, a,
                 kernels.one(MatMul{m, k, n, false, false, false}, {real(dx), real(w)}, m * k));
  check_gradient([&](const Values& at) { return dot(dy, forward(a, at)[1]); }, bias, kernels.one(BiasGrad{m, n}, {real(dx)}, n));
}

TEST_CASE("a weight's gradient with that of its bias is both, added up or not", "[products]") {
  const DType dtype = GENERATE(DType::fp64, DType::fp32, DType::bf16);
  const bool accumulate = GENERATE(false, true);
  const auto [m, n, k] = GENERATE(std::tuple{5, 7, 3}, std::tuple{24, 16, 40}, std::tuple{128, 64, 64});
  const auto wide = dtype == DType::fp64 ? Operand::Kind::fp64 : Operand::Kind::fp32;
  Kernels kernels(dtype);
  const Operand dy = real(random_values(k * m, 1)), x = real(random_values(k * n, 2));
  const Operand before = in_type(wide, random_values(m * n, 3));
  MatMul op{m, n, k, true, false, false, accumulate, dtype == DType::fp64 ? DType::fp64 : DType::fp32};
  std::vector<Operand> in{dy, x}, out{accumulate ? before : in_type(wide, unwritten(m * n))};
  if (accumulate) in.push_back(before);
  const Values dw = kernels.run(op, in, out).front();
  const Values db = kernels.run(BiasGrad{k, m}, {dy}, {in_type(wide, unwritten(m))}).front();
  op.sums = true;
  out.push_back(in_type(wide, unwritten(m)));
  const auto both = kernels.run(op, in, out);
  const double tolerance = rounding(dtype == DType::bf16 ? DType::fp32 : dtype);  // sums of bf16 numbers in fp32
  check_close(both[0], dw, tolerance);
  check_close(both[1], db, tolerance);
}

// ---- products that accumulate ----

TEST_CASE("a product that accumulates is the product, then added, bit for bit") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const MatMul writes = GENERATE(MatMul{1, 1, 1, true}, MatMul{5, 3, 2, true}, MatMul{48, 33, 700, true},
                                 MatMul{130, 70, 1500, true});
  const std::int64_t m = writes.m, n = writes.n, k = writes.k;
  MatMul adds = writes;
  adds.accumulate = true;
  adds.total = dtype;
  Kernels kernels(dtype);
  const Values a = thirds(m * k, 1), b = thirds(k * n, 2), before = thirds(m * n, 3);
  const Values product = kernels.one(writes, {real(a), real(b)}, m * n);
  const auto sum = [&](const Operand& total) {
    return kernels.run(Accumulate{m * n, dtype, dtype}, {real(product), total}, {total}).front();
  };
  CHECK(kernels.run(adds, {real(a), real(b), real(before)}, {real(before)}).front() == sum(real(before)));
}

TEST_CASE("a product in floats is added to a total in doubles", "[cpu]") {
  const MatMul op{3, 4, 5, true, false, false, true, DType::fp64};
  Kernels floats(DType::fp32);
  const Values a = random_values(15, 1), b = random_values(20, 2), before = thirds(12, 3);
  const MatMul writes{3, 4, 5, true, false, false};
  const Values expected = added(before, floats.one(writes, {real(a), real(b)}, 12));
  CHECK(floats.run(op, {real(a), real(b), fp64(before)}, {fp64(before)}).front() == expected);
}

TEST_CASE("experts' products that accumulate are the products, then added, bit for bit") {
  const bool ragged = GENERATE(false, true);
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const GroupedWeightGrad writes = ragged ? GroupedWeightGrad{1, 3, 12, 4, 5, true} : GroupedWeightGrad{6, 3, 2, 4, 5};
  GroupedWeightGrad adds = writes;
  adds.accumulate = true;
  adds.total = dtype;
  Kernels kernels(dtype);
  std::vector<Operand> in{real(thirds(12 * 4, 1)), real(thirds(12 * 5, 2))};
  if (ragged) in.push_back(integers({7, 0, 5}));
  const Operand before = real(thirds(60, 3));
  const Values product = kernels.one(writes, in, 60);
  const Values expected = kernels.run(Accumulate{60, dtype, dtype}, {real(product), before}, {before}).front();
  in.push_back(before);
  CHECK(kernels.run(adds, in, {before}).front() == expected);
}

TEST_CASE("a total of a type that the backend has not is refused") {
  Kernels kernels;
  const OperandTypes types{DType::fp64, {}, {}};
  CHECK_FALSE(kernels.backend->supports(MatMul{1, 1, 1, true, false, false, true, DType::bf16}, types).possible);
  CHECK_FALSE(kernels.backend->supports(GroupedWeightGrad{1, 1, 1, 1, 1, false, true, DType::bf16}, types).possible);
}

TEST_CASE("a product that gives the bias' gradient gives what the two kernels give") {
  const bool adds = GENERATE(false, true);
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const std::int64_t m = 13, n = 5, k = 70;
  MatMul alone{m, n, k, true, false, false, adds, dtype}, both = alone;
  both.sums = true;
  Kernels kernels(dtype);
  std::vector<Operand> in{real(thirds(m * k, 1)), real(thirds(k * n, 2))};
  const Operand c = adds ? real(thirds(m * n, 3)) : result(m * n);
  if (adds) in.push_back(c);
  const Values sums = kernels.one(BiasGrad{k, m}, {in[0]}, m);
  const auto got = kernels.run(both, in, {c, result(m)});
  check_same(got[0], kernels.run(alone, in, {c}).front(), dtype);
  check_same(got[1], sums, dtype);
  both.trans_a = false;
  CHECK_THROWS_AS(kernels.run(both, in, {c, result(m)}), ContractError);
}

// ---- a sum with its norm, a loss in one kernel ----

TEST_CASE("a sum and its norm in one kernel are the two one after the other, bit for bit") {
  const bool bias = GENERATE(false, true), rms = GENERATE(false, true);
  const double dropout = GENERATE(0.0, 0.25);
  const BiasDropoutAddNorm both{kRows, kCols, dropout, bias, DropoutSite::mlp_output, false, 1e-5, rms};
  Kernels kernels;
  kernels.context.seq_length = 3;
  std::vector<Operand> add{real(thirds(kAll, 1))};
  if (bias) add.push_back(real(thirds(kCols, 2)));
  add.push_back(real(thirds(kAll, 3)));
  const Values sum = kernels.one(both.add(), add, kAll);
  std::vector<Operand> norm{real(sum), real(thirds(kCols, 4))}, in = add;
  if (!rms) norm.push_back(real(thirds(kCols, 5)));
  in.insert(in.end(), norm.begin() + 1, norm.end());
  const auto apart = kernels.run(both.norm(), norm, {result(kAll), result(2 * kRows)});
  const auto at_once = kernels.run(both, in, {result(kAll), result(kAll), result(2 * kRows)});
  CHECK(at_once == std::vector<Values>{sum, apart[0], apart[1]});
}

TEST_CASE("a loss in one kernel is maximum, sums and loss one after the other, bit for bit") {
  const bool first = GENERATE(false, true);
  const VocabDims dims{kRows, kCols, kCols - 2};
  Kernels kernels;
  const Values logits = thirds(kAll, 1);
  const Operand targets = integers({0, 4, -1, 2, 3, 1}), before = fp64({0.3});
  const Values max = kernels.one(VocabMax{dims}, {real(logits)}, kRows);
  const Values sums = kernels.one(VocabExpSum{dims}, {real(logits), real(max), targets}, 2 * kRows);
  std::vector<Operand> apart{real(logits), real(max), real(sums), targets}, at_once{real(logits), targets};
  if (!first) apart.push_back(before), at_once.push_back(before);
  const std::vector<Operand> out{before, result(kAll)};
  CHECK(kernels.run(CrossEntropy{dims, 5, first, true}, at_once, out) ==
        kernels.run(CrossEntropy{dims, 5, first}, apart, out));
  kernels.context.tensor_size = 2;  // columns are elsewhere
  CHECK_THROWS_AS(kernels.run(CrossEntropy{dims, 5, first, true}, at_once, out), ContractError);
}

TEST_CASE("the gradient of a loss in one kernel equals slopes along every axis") {
  const VocabDims dims{2, 5, 4};
  Kernels kernels;
  const Operand targets = integers({3, 1});
  const auto run = [&](const Values& logits) {
    return kernels.run(CrossEntropy{dims, 2, true, true}, {real(logits), targets}, {fp64({0}), result(10)});
  };
  const Values logits = random_values(10, 1);
  check_gradient([&](const Values& x) { return run(x)[0][0]; }, logits, run(logits)[1]);
}

// ---- attention in parts ----

TEST_CASE("mask, softmax and dropout one after the other are the whole softmax, bit for bit", "[cpu]") {
  const bool alibi = GENERATE(false, true);
  const std::int64_t buckets = alibi ? 0 : GENERATE(0, 8);
  AttentionDims dims = kDims;
  dims.causal = GENERATE(false, true);
  Kernels kernels;
  std::vector<Operand> in{real(thirds(kScores, 1))};
  if (buckets > 0) in.push_back(real(thirds(3 * buckets, 2)));
  const auto whole = kernels.run(AttentionSoftmax{dims, 0.25, alibi, buckets}, in, {result(kScores), result(kScores)});
  const auto site = DropoutSite::attention;
  const Values masked = kernels.one(AttentionSoftmax{dims, 0, alibi, buckets, site, SoftmaxPart::mask}, in, kScores);
  const Values probs =
      kernels.one(AttentionSoftmax{dims, 0, false, 0, site, SoftmaxPart::softmax}, {real(masked)}, kScores);
  const Values dropped =
      kernels.one(AttentionSoftmax{dims, 0.25, false, 0, site, SoftmaxPart::dropout}, {real(probs)}, kScores);
  CHECK(whole == std::vector<Values>{probs, dropped});
}

TEST_CASE("dropout before the softmax's gradient is the whole gradient") {
  Kernels kernels;
  const Values dprobs = thirds(kScores, 1);
  const Values probs = kernels.one(AttentionSoftmax{kDims, 0, false}, {real(thirds(kScores, 2))}, kScores);
  const Values kept = kernels.one(
      AttentionSoftmaxBackward{kDims, 0.25, 0, DropoutSite::attention, SoftmaxPart::dropout}, {real(dprobs)}, kScores);
  check_same(kernels.one(AttentionSoftmaxBackward{kDims, 0}, {real(kept), real(probs)}, kScores),
             kernels.one(AttentionSoftmaxBackward{kDims, 0.25}, {real(dprobs), real(probs)}, kScores), DType::fp64);
}

TEST_CASE("the gradient of mask, softmax and dropout in parts equals slopes along every axis") {
  const AttentionDims dims{1, 2, 3, 4};
  Kernels kernels;
  const auto site = DropoutSite::attention;
  const Values weights = random_values(18, 3);
  const auto probs_of = [&](const Values& scores) {
    const Values masked = kernels.one(AttentionSoftmax{dims, 0, true, 0, site, SoftmaxPart::mask}, {real(scores)}, 18);
    return kernels.one(AttentionSoftmax{dims, 0, false, 0, site, SoftmaxPart::softmax}, {real(masked)}, 18);
  };
  const auto f = [&](const Values& scores) {
    const AttentionSoftmax drop{dims, 0.25, false, 0, site, SoftmaxPart::dropout};
    return dot(weights, kernels.one(drop, {real(probs_of(scores))}, 18));
  };
  const Values scores = random_values(18, 1);
  const Values kept =
      kernels.one(AttentionSoftmaxBackward{dims, 0.25, 0, site, SoftmaxPart::dropout}, {real(weights)}, 18);
  check_gradient(f, scores, kernels.one(AttentionSoftmaxBackward{dims, 0}, {real(kept), real(probs_of(scores))}, 18));
}

TEST_CASE("unscaled products of queries and keys are scaled by a kernel of their own") {
  Kernels kernels;
  const Values qkv = random_values(2 * 5 * 3 * 3 * 4, 1), dscores = random_values(kScores, 2);
  const Elementwise half{30, 5, ElementwiseKind::multiply, Spread::none, 0.5};  // 1 / sqrt(4): exact
  const Values raw = kernels.one(AttentionScores{kDims, false}, {real(qkv), real(qkv)}, kScores);
  CHECK(kernels.one(half, {real(raw)}, kScores) ==
        kernels.one(AttentionScores{kDims}, {real(qkv), real(qkv)}, kScores));
  const std::vector<Operand> out{real(qkv), same_as(0)};
  const Values scaled = kernels.one(half, {real(dscores)}, kScores);
  CHECK(kernels.run(AttentionScoresBackward{kDims, false}, {real(scaled), real(qkv), real(qkv), real(qkv)}, out) ==
        kernels.run(AttentionScoresBackward{kDims}, {real(dscores), real(qkv), real(qkv), real(qkv)}, out));
}

TEST_CASE("a rotation in parts is the whole one, for queries and keys, there and back") {
  const bool inverse = GENERATE(false, true);
  AttentionDims dims{2, 4, 5, 6};
  dims.kv_heads = GENERATE(2, 4);
  Kernels kernels;
  const std::int64_t n = 2 * 5 * dims.qkv_width();
  const Rotary whole{dims, 100, inverse};
  const Values x = random_values(n, 1);
  Values qkv = x;
  for (const auto heads : {RotaryHeads::queries, RotaryHeads::keys}) {
    Rotary op = whole;
    op.heads = heads;
    const auto as = [&](RotaryPart part) { return op.part = part, op; };
    Values t = kernels.one(as(RotaryPart::swap), {real(qkv)}, op.elements());
    qkv = kernels.run(as(RotaryPart::cosine), {real(qkv)}, {real(qkv)}).front();
    t = kernels.run(as(RotaryPart::sine), {real(t)}, {real(t)}).front();
    qkv = kernels.run(as(RotaryPart::add), {real(t), real(qkv)}, {real(qkv)}).front();
  }
  check_close(qkv, kernels.run(whole, {real(x)}, {real(x)}).front(), 4e-16);  // two roundings in another order
}

// ---- elementwise parts ----

TEST_CASE("elementwise operations equal plain loops for every second operand") {
  const auto kind = GENERATE(ElementwiseKind::add, ElementwiseKind::subtract, ElementwiseKind::multiply);
  const auto other = GENERATE(Spread::full, Spread::row, Spread::column);
  const Values a = random_values(kAll, 1), b = random_values(kAll, 2);
  const std::int64_t given = other == Spread::full ? kAll : other == Spread::row ? kRows : kCols;
  Values expected;
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t c = 0; c < kCols; ++c) {
      const std::int64_t at = other == Spread::full ? r * kCols + c : other == Spread::row ? r : c;
      const double x = a[static_cast<std::size_t>(r * kCols + c)], y = b[static_cast<std::size_t>(at)];
      expected.push_back(2 * (kind == ElementwiseKind::add        ? x + y
                              : kind == ElementwiseKind::subtract ? x - y
                                                                  : x * y));
    }
  Kernels kernels;
  CHECK(kernels.one(Elementwise{kRows, kCols, kind, other, 2}, {real(a), real(slice(b, 0, given))}, kAll) == expected);
}

TEST_CASE("a square and a scale have one operand, and a sum of one is a broken promise") {
  Kernels kernels;
  CHECK(kernels.one(Elementwise{1, 3, ElementwiseKind::square, Spread::none, 2}, {real({1, 2, -3})}, 3) ==
        Values{2, 8, 18});
  CHECK(kernels.one(Elementwise{1, 3, ElementwiseKind::multiply, Spread::none, 2}, {real({1, 2, -3})}, 3) ==
        Values{2, 4, -6});
  CHECK_THROWS_AS(kernels.one(Elementwise{1, 1, ElementwiseKind::add, Spread::none}, {real({1})}, 1), ContractError);
}

TEST_CASE("rows are reduced to their sum, or to one over the root of their mean") {
  Kernels kernels;
  const Values x{1, 2, 6, 0, 0, 3};
  CHECK(kernels.one(RowReduce{2, 3, RowReduceKind::sum}, {real(x)}, 2) == Values{9, 3});
  const Values roots = kernels.one(RowReduce{2, 3, RowReduceKind::inverse_root_of_mean, 3}, {real(x)}, 2);
  check_close(roots, {1 / std::sqrt(6.0), 0.5}, 1e-15);
}

TEST_CASE("an activation that adds the bias itself has the gradient of slopes, in x and in the bias") {
  const auto kind = GENERATE(PointwiseKind::gelu_tanh, PointwiseKind::squared_relu);
  Kernels kernels;
  const Values x = random_values(kAll, 1), bias = random_values(kCols, 2), dy = random_values(kAll, 3);
  const auto f = [&](const Values& at, const Values& b) {
    return dot(dy, kernels.one(Pointwise{kAll, kind, kCols}, {real(at), real(b)}, kAll));
  };
  const Values dx = kernels.one(PointwiseBackward{kAll, kind, kCols}, {real(dy), real(x), real(bias)}, kAll);
  check_gradient([&](const Values& at) { return f(at, bias); }, x, dx);
  check_gradient([&](const Values& b) { return f(x, b); }, bias,
                 kernels.one(BiasGrad{kRows, kCols}, {real(dx)}, kCols));
}

TEST_CASE("a gate in two kernels is the whole one bit for bit, and so is its gradient") {
  const auto kind = GENERATE(GateKind::silu, GateKind::gelu_tanh, GateKind::clamped_silu);
  Kernels kernels;
  const Values x = thirds(2 * kAll, 1), dy = thirds(kAll, 2);
  const Values a = kernels.one(GatedPointwise{kRows, kCols, kind, GatePart::activation}, {real(x)}, kAll);
  CHECK(kernels.one(GatedPointwise{kRows, kCols, kind, GatePart::product}, {real(a), real(x)}, kAll) ==
        kernels.one(GatedPointwise{kRows, kCols, kind}, {real(x)}, kAll));
  const auto product = kernels.run(GatedPointwiseBackward{kRows, kCols, kind, GatePart::product},
                                   {real(dy), real(a), real(x)}, {result(kAll), result(2 * kAll)});
  const Values dx = kernels
                        .run(GatedPointwiseBackward{kRows, kCols, kind, GatePart::activation},
                             {real(product[0]), real(x), real(product[1])}, {real(product[1])})
                        .front();
  CHECK(dx == kernels.one(GatedPointwiseBackward{kRows, kCols, kind}, {real(dy), real(x)}, 2 * kAll));
}

TEST_CASE("a layer norm without a beta is one whose beta is 0, and its gradients are the others'") {
  Kernels kernels;
  const Values x = thirds(kAll, 1), gamma = thirds(kCols, 2), dy = thirds(kAll, 4);
  const std::vector<Operand> out{result(kAll), result(2 * kRows)};
  const auto plain = kernels.run(LayerNorm{kRows, kCols, 1e-5, false, true}, {real(x), real(gamma)}, out);
  CHECK(plain == kernels.run(LayerNorm{kRows, kCols, 1e-5}, {real(x), real(gamma), real(Values(gamma.size(), 0.0))}, out));
  LayerNormBackward back{kRows, kCols, false};
  const std::vector<Operand> in{real(dy), real(x), real(plain[1]), real(gamma)};
  auto all = kernels.run(back, in, {result(kAll), result(kCols), result(kCols)});
  all.pop_back();
  back.plain = true;
  CHECK(kernels.run(back, in, {result(kAll), result(kCols)}) == all);
}

TEST_CASE("a norm's gradients in two kernels are those of one, bit for bit") {
  const bool rms = GENERATE(false, true), residual = GENERATE(false, true);
  Kernels kernels;
  const Values x = thirds(kAll, 1), gamma = thirds(kCols, 2), beta = thirds(kCols, 3);
  const auto stats = kernels.run(LayerNorm{kRows, kCols, 1e-5, rms}, {real(x), real(gamma), real(beta)},
                                 {result(kAll), result(2 * kRows)})[1];
  const std::vector<Operand> parameters{real(thirds(kAll, 4)), real(x), real(stats)};
  std::vector<Operand> input = parameters, gradients{result(kCols)}, all{result(kAll), result(kCols)};
  input.push_back(real(gamma));
  if (residual) input.push_back(real(thirds(kAll, 5)));
  if (!rms) gradients.push_back(result(kCols)), all.push_back(result(kCols));
  auto apart = kernels.run(LayerNormBackward{kRows, kCols, residual, rms, NormPart::input}, input, {result(kAll)});
  for (Values& v :
       kernels.run(LayerNormBackward{kRows, kCols, false, rms, NormPart::parameters}, parameters, gradients))
    apart.push_back(std::move(v));
  CHECK(apart == kernels.run(LayerNormBackward{kRows, kCols, residual, rms}, input, all));
}

TEST_CASE("dropout without a residual is dropout with a residual of zeros") {
  Kernels kernels;
  kernels.context.seq_length = 3;
  const bool bias = GENERATE(false, true);
  std::vector<Operand> in{real(thirds(kAll, 1))};
  if (bias) in.push_back(real(thirds(kCols, 2)));
  const auto site = DropoutSite::attention_output;
  const Values alone = kernels.one(BiasDropoutAdd{kRows, kCols, 0.25, bias, site, false, false}, in, kAll);
  in.push_back(real(Values(static_cast<std::size_t>(kAll), 0.0)));
  CHECK(alone == kernels.one(BiasDropoutAdd{kRows, kCols, 0.25, bias, site}, in, kAll));
}

// ---- RMSNorm as frameworks without a kernel for it do it ----

TEST_CASE("RMSNorm as single operations has the gradient of slopes, and is the one kernel's to rounding") {
  Kernels kernels;
  const Values gamma = random_values(kCols, 2), dy = random_values(kAll, 3), x = random_values(kAll, 1);
  const auto all = [&](ElementwiseKind kind, Spread other, double factor = 1) {
    return Elementwise{kRows, kCols, kind, other, factor};
  };
  const auto times = [&](const Values& a, const Values& b, Spread other) {
    return kernels.one(all(ElementwiseKind::multiply, other), {real(a), real(b)}, kAll);
  };
  const auto root = [&](const Values& at) {
    const Values square = kernels.one(all(ElementwiseKind::square, Spread::none), {real(at)}, kAll);
    return kernels.one(RowReduce{kRows, kCols, RowReduceKind::inverse_root_of_mean, 1e-5}, {real(square)}, kRows);
  };
  const auto norm = [&](const Values& at) { return times(times(at, root(at), Spread::row), gamma, Spread::column); };
  const auto whole =
      kernels.run(LayerNorm{kRows, kCols, 1e-5, true}, {real(x), real(gamma)}, {result(kAll), result(2 * kRows)});
  check_close(norm(x), whole[0], 1e-15);
  const Values r = root(x), g = times(dy, gamma, Spread::column);
  const Values sum = kernels.one(RowReduce{kRows, kCols, RowReduceKind::sum}, {real(times(g, x, Spread::full))}, kRows);
  Values factor;
  for (std::size_t i = 0; i < r.size(); ++i) factor.push_back(sum[i] * r[i] * r[i] * r[i] / kCols);
  const Values dx = kernels.one(all(ElementwiseKind::subtract, Spread::full),
                                {real(times(g, r, Spread::row)), real(times(x, factor, Spread::row))}, kAll);
  check_gradient([&](const Values& at) { return dot(dy, norm(at)); }, x, dx);
}

}  // namespace tandem::exec::test
