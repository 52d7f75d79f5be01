// A device's kernels that keep documents apart, in every precision that trains on one, beside the CPU's in fp64.
#include "tests/exec/device/beside.hpp"

namespace tandem::exec::test {
namespace {

using Kind = Operand::Kind;
using Operands = std::vector<Operand>;

constexpr std::int64_t kBatch = 2, kSeq = 70, kHeads = 4, kGroups = 2, kDim = 8;

AttentionDims dims_of(std::int64_t window, bool chunked) {
  AttentionDims d{kBatch, kHeads, kSeq, kDim};
  d.kv_heads = kGroups;
  d.window = window, d.chunked = chunked, d.documents = true;
  return d;
}

}  // namespace

TEST_CASE("a device keeps documents apart in the types that it trains in") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  const AttentionDims d = dims_of(GENERATE(0, 5), GENERATE(false, true));
  CAPTURE(name(dtype), d.window, d.chunked);
  Beside both(dtype);
  both.keep_apart(random_documents(kBatch, kSeq, 30, 11), kSeq);
  const std::int64_t rows = kBatch * kSeq, wide = rows * d.context_width(), packed = rows * d.qkv_width();
  const std::int64_t square = kBatch * kHeads * kSeq * kSeq;
  const Values qkv = short_values(packed, 1), dcontext = short_values(wide, 2), scores = short_values(square, 3);
  const auto flash = both.check(
      FlashAttention{d, 0, false}, [&](Kind) { return Operands{real(qkv), real(qkv)}; },
      [&](Kind k) {
        return Operands{result(wide), zeros(k, kBatch * kHeads * kSeq)};
      });
  both.check(
      FlashAttentionBackward{d, 0, false},
      [&](Kind k) {
        return Operands{real(dcontext), real(qkv), real(qkv), real(flash[0]), in_type(k, flash[1])};
      },
      [&](Kind) {
        return Operands{result(packed), same_as(0)};
      });
  const auto probs = both.check(
      AttentionSoftmax{d, 0, false}, [&](Kind) { return Operands{real(scores)}; }, [&](Kind) { return Operands{result(square)}; });
  both.check(
      AttentionSoftmaxBackward{d, 0}, [&](Kind) { return Operands{real(scores), real(probs[0])}; },
      [&](Kind) { return Operands{result(square)}; });
  both.check(
      Rotary{d, 100.0}, [&](Kind) { return Operands{real(qkv)}; }, [&](Kind) { return Operands{real(qkv)}; });
}

TEST_CASE("a device adds the gradients of learned positions of documents in the types that it trains in") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  constexpr std::int64_t kLength = 1100, kHidden = 16;  // rows of more than one list
  CAPTURE(name(dtype));
  Beside both(dtype);
  both.keep_apart(random_documents(kBatch, kLength, 50, 12), kLength);
  PositionDropout op{kBatch, kLength, kHidden, 0.25, true};
  PositionDropoutBackward back{kBatch, kLength, kHidden, kLength, 0.25, true};
  op.documents = back.documents = true;
  const std::int64_t n = kBatch * kLength * kHidden;
  const Values x = short_values(n, 4), table = short_values(kLength * kHidden, 5);
  both.check(
      op, [&](Kind) { return Operands{real(x), real(table)}; }, [&](Kind) { return Operands{result(n)}; });
  both.check(
      back, [&](Kind) { return Operands{real(x)}; },
      [&](Kind k) {
        return Operands{result(n), zeros(k, kLength * kHidden)};
      });
}

}  // namespace tandem::exec::test
