#include <utility>

#include "models/memory_plan.hpp"
#include "tests/exec/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

// An operation with the sizes of its operands, to run without knowing what it does.
struct Call {
  Op op;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
};

constexpr std::int64_t kSeq = 5, kTokens = 3 * kSeq, kCols = 37, kElements = kTokens * kCols;
const AttentionDims kDims{3, 7, kSeq, 11};
constexpr std::int64_t kQkv = kTokens * 7 * 3 * 11, kContext = kTokens * 7 * 11, kSquare = 3 * 7 * kSeq * kSeq;
const VocabDims kVocab{kTokens, kCols, kCols - 4};

Operand random(std::int64_t n, unsigned seed) { return real(random_values(n, seed)); }
Operand positive(std::int64_t n, unsigned seed) {
  Values v = random_values(n, seed);
  for (double& x : v) x = 1 + 0.5 * x;
  return real(v);
}
Operand tokens() { return integers(random_integers(kTokens, kCols - 4, 9)); }

std::vector<Call> linear_calls() {
  return {
      {MatMul{7, 5, 3, true, false, true}, {random(21, 1), random(15, 2), random(5, 3)}, {result(35)}},
      {BiasGrad{kTokens, kCols}, {random(kElements, 1)}, {result(kCols)}},
      {LayerNorm{kTokens, kCols, 1e-5},
       {random(kElements, 1), random(kCols, 2), random(kCols, 3)},
       {result(kElements), result(2 * kTokens)}},
      {LayerNormBackward{kTokens, kCols, true},
       {random(kElements, 1), random(kElements, 2), positive(2 * kTokens, 3), random(kCols, 4), random(kElements, 5)},
       {result(kElements), result(kCols), result(kCols)}},
      {Pointwise{kElements, PointwiseKind::gelu_tanh}, {random(kElements, 1)}, {result(kElements)}},
      {PointwiseBackward{kElements, PointwiseKind::gelu_tanh},
       {random(kElements, 1), random(kElements, 2)},
       {result(kElements)}},
      {GatedPointwise{kTokens, kCols, GateKind::silu}, {random(2 * kElements, 1)}, {result(kElements)}},
      {GatedPointwiseBackward{kTokens, kCols, GateKind::silu},
       {random(kElements, 1), random(2 * kElements, 2)},
       {result(2 * kElements)}},
      {BiasDropoutAdd{kTokens, kCols, 0.25, true, DropoutSite::mlp_output},
       {random(kElements, 1), random(kCols, 2), random(kElements, 3)},
       {result(kElements)}},
      {BiasDropoutAddBackward{kTokens, kCols, 0.25, true, DropoutSite::mlp_output},
       {random(kElements, 1)},
       {result(kElements), result(kCols)}}};
}

std::vector<Call> attention_calls() {
  return {{AttentionScores{kDims}, {random(kQkv, 1)}, {result(kSquare)}},
          {AttentionSoftmax{kDims, 0.25, true}, {random(kSquare, 1)}, {result(kSquare), result(kSquare)}},
          {AttentionContext{kDims}, {positive(kSquare, 1), random(kQkv, 2)}, {result(kContext)}},
          {AttentionContextBackward{kDims},
           {random(kContext, 1), positive(kSquare, 2), random(kQkv, 3)},
           {result(kSquare), random(kQkv, 4)}},
          {AttentionSoftmaxBackward{kDims, 0.25}, {random(kSquare, 1), positive(kSquare, 2)}, {result(kSquare)}},
          {AttentionScoresBackward{kDims}, {random(kSquare, 1), random(kQkv, 2)}, {random(kQkv, 3)}},
          {Rotary{{3, 7, kSeq, 10}, 10000}, {random(kTokens * 210, 1)}, {random(kTokens * 210, 1)}}};
}

std::vector<Call> embedding_and_loss_calls() {
  return {
      {Embedding{kTokens, 11, kCols}, {tokens(), random(kCols * 11, 1)}, {result(kTokens * 11)}},
      {EmbeddingBackward{kTokens, 11, kCols}, {tokens(), random(kTokens * 11, 1)}, {result(kCols * 11)}},
      {PositionDropout{3, kSeq, kCols, 0.25, true}, {random(kElements, 1), random(7 * kCols, 2)}, {result(kElements)}},
      {PositionDropoutBackward{3, kSeq, kCols, 7, 0.25, true},
       {random(kElements, 1)},
       {result(kElements), result(7 * kCols)}},
      {VocabMax{kVocab}, {random(kElements, 1)}, {result(kTokens)}},
      {VocabExpSum{kVocab}, {random(kElements, 1), positive(kTokens, 2), tokens()}, {result(2 * kTokens)}},
      {CrossEntropy{kVocab, 77, true},
       {random(kElements, 1), positive(kTokens, 2), positive(2 * kTokens, 3), tokens()},
       {fp64(unwritten(1)), result(kElements)}}};
}

std::vector<Call> optimizer_calls() {
  return {{Accumulate{kElements, DType::fp64, DType::fp64},
           {fp64(random_values(kElements, 1)), fp64(random_values(kElements, 2))},
           {fp64(random_values(kElements, 2))}},
          {GradNorm{kElements, 3}, {random(kElements, 1)}, {fp64(unwritten(3))}},
          {ClipCoefficient{3, 1}, {fp64({1, 2, 3})}, {}},
          {AdamW{kElements, 0.9, 0.99, 1e-8, 0.1, false},
           {random(kElements, 1)},
           {random(kElements, 2), random(kElements, 3), positive(kElements, 4)}}};
}

std::vector<Call> all_calls() {
  std::vector<Call> all;
  for (const auto& some : {linear_calls(), attention_calls(), embedding_and_loss_calls(), optimizer_calls()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

const std::vector<Param>& whole() {
  static const std::vector<Param> params = [] {
    Param p;
    p.global_index = 1;
    p.rows = kTokens;
    p.cols = kCols;
    p.offset = 0;
    p.decay = true;
    return std::vector{p};
  }();
  return params;
}

std::vector<Values> run(const Call& call, DType dtype) {
  Kernels kernels(dtype);
  kernels.context.seq_length = kSeq;
  kernels.context.params = whole();
  kernels.scalars = {.learning_rate = 0.01, .bias_correction1 = 0.1, .bias_correction2 = 0.01};
  auto results = kernels.run(call.op, call.inputs, call.outputs);
  results.push_back({kernels.scalars.grad_norm, kernels.scalars.clip_coefficient});
  return results;
}

template <std::size_t... I>
std::vector<Op> one_of_each(std::index_sequence<I...>) {
  return {Op(std::in_place_index<I>)...};
}

}  // namespace

TEST_CASE("every kind of operation is either supported in fp32 and fp64 or a communication") {
  const auto backend = make_cpu_backend();
  for (Op op : one_of_each(std::make_index_sequence<kOpKinds>{})) {
    if (auto* a = std::get_if<Accumulate>(&op)) a->source = a->destination = DType::fp32;
    INFO(kind_name(op));
    for (const DType dtype : {DType::fp32, DType::fp64}) CHECK(backend->supports(op, dtype) != is_communication(op));
    for (const DType dtype : {DType::tf32, DType::bf16, DType::fp16, DType::fp8, DType::int32}) {
      CHECK_FALSE(backend->supports(op, dtype));
    }
  }
}

TEST_CASE("what is not supported is refused when it is run, by kind and type") {
  Kernels halves(DType::bf16), doubles;
  CHECK_THROWS_WITH(halves.run(BiasGrad{1, 1}, {real({1})}, {result(1)}),
                    Catch::Contains("bias_grad") && Catch::Contains("bf16"));
  CHECK_THROWS_AS(doubles.run(Send{1, DType::fp64, 1}, {real({1})}, {}), DeviceError);
  CHECK_FALSE(doubles.backend->supports(Accumulate{1, DType::bf16, DType::fp32}, DType::fp32));
  CHECK_FALSE(doubles.backend->supports(AdamW{1, 0.9, 0.9, 1e-8, 0, true}, DType::fp64));
}

TEST_CASE("a missing operand is a broken promise, not a crash") {
  Kernels kernels;
  CHECK_THROWS_AS(kernels.run(BiasGrad{1, 1}, {}, {result(1)}), ContractError);
  CHECK_THROWS_AS(kernels.run(BiasGrad{1, 1}, {real({1})}, {}), ContractError);
  kernels.context.scalars = nullptr;
  CHECK_THROWS_AS(kernels.run(ClipCoefficient{1, 1}, {fp64({1})}, {}), ContractError);
}

TEST_CASE("this file calls every computation") {
  std::vector<bool> called(kOpKinds);
  for (const Call& c : all_calls()) called[c.op.index()] = true;
  for (const Op& op : one_of_each(std::make_index_sequence<kOpKinds>{})) {
    INFO(kind_name(op));
    CHECK(called[op.index()] != is_communication(op));
  }
}

TEST_CASE("every operation writes every element of its outputs, and the same bits each time") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  for (const Call& c : all_calls()) {
    INFO(kind_name(c.op));
    const auto results = run(c, dtype);
    for (const Values& v : results) CHECK(std::none_of(v.begin(), v.end(), [](double x) { return std::isnan(x); }));
    CHECK(run(c, dtype) == results);
  }
}

TEST_CASE("every operation in floats agrees with doubles") {
  for (const Call& c : all_calls()) {
    INFO(kind_name(c.op));
    const auto in_float = run(c, DType::fp32), in_double = run(c, DType::fp64);
    // A few dozen roundings of 6e-8 each, relative to the largest element; inputs are exact in floats.
    for (std::size_t i = 0; i < in_float.size(); ++i) check_close(in_float[i], in_double[i], 2e-6);
  }
}

TEST_CASE("counted products equal the graph's matrix FLOPs, for every operation") {
  for (const Call& c : all_calls()) {
    Kernels kernels;
    kernels.context.seq_length = kSeq;
    kernels.context.params = whole();
    kernels.run(c.op, c.inputs, c.outputs);
    INFO(kind_name(c.op));
    CHECK(kernels.backend->counters().gemm_flops == matrix_flops(c.op).count());
  }
}

TEST_CASE("memory is aligned and its live and peak bytes are counted") {
  const auto backend = make_cpu_backend();
  auto a = backend->allocate(1000);
  {
    const auto b = backend->allocate(77);
    CHECK(reinterpret_cast<std::uintptr_t>(b->data()) % kArenaAlignment == 0);
    CHECK(b->size() == 77);
    CHECK(backend->counters().allocated_bytes == 1077);
  }
  CHECK(backend->counters().allocated_bytes == 1000);
  a = backend->allocate(50);  // both live for a moment
  CHECK(backend->counters().allocated_bytes == 50);
  CHECK(backend->counters().peak_bytes == 1077);
}

TEST_CASE("memory may outlive its backend") {
  auto backend = make_cpu_backend();
  const auto memory = backend->allocate(16);
  backend.reset();
  memory->data()[15] = std::byte{7};
  CHECK(memory->data()[15] == std::byte{7});
}

// Sanitizers end the program on such a request instead of returning null.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TANDEM_SANITIZED_ALLOCATOR
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TANDEM_SANITIZED_ALLOCATOR
#endif
#ifndef TANDEM_SANITIZED_ALLOCATOR
TEST_CASE("more memory than there is gives an error that says how much was wanted") {
  const auto backend = make_cpu_backend();
  CHECK_THROWS_WITH(backend->allocate(std::size_t{1} << 60), Catch::Contains("1152921504606846976 bytes"));
  CHECK(backend->counters().allocated_bytes == 0);
}
#endif

}  // namespace tandem::exec::test
