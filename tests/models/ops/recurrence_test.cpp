// Work of a recurrence, against plain loops over positions and over chunks.

#include "models/ops/op.hpp"
#include "tests/catch.hpp"

using namespace tandem;

namespace {

/// FLOPs of a matrix product.
std::int64_t product(std::int64_t m, std::int64_t n, std::int64_t k) { return 2 * m * n * k; }

/// One position after the other: a state [key, value] of every head.
std::int64_t by_positions(const RecurrenceDims& d) {
  std::int64_t sum = 0;
  for (std::int64_t position = 0; position < d.rows(); ++position)
    for (std::int64_t head = 0; head < d.heads; ++head) {
      if (d.rule == RecurrenceRule::gated_delta) sum += product(1, d.value_dim, d.key_dim);  // what the state holds for the key
      sum += product(d.key_dim, d.value_dim, 1);                                             // what is added to it
      sum += product(1, d.value_dim, d.key_dim);                                             // what the query reads
    }
  return sum;
}

/// Chunk by chunk, as the kernels have it; whole chunks.
std::int64_t by_chunks(const RecurrenceDims& d) {
  const std::int64_t c = d.chunk(), k = d.key_dim, v = d.value_dim;
  const bool delta = d.rule == RecurrenceRule::gated_delta;
  std::int64_t sum = 0;
  for (std::int64_t chunk = 0; chunk < d.rows() / c; ++chunk) {
    if (!delta) sum += d.key_heads * product(c, c, k);  // queries by keys, the same for all heads of a group
    for (std::int64_t head = 0; head < d.heads; ++head) {
      sum += product(c, v, c) + product(k, v, c) + product(c, v, k);  // scores by values, the state's change, what it gives
      // Keys by keys; the inverse by keys and by values; queries by keys; what the state holds for the keys.
      if (delta) sum += product(c, c, k) + product(c, k, c) + product(c, v, c) + product(c, c, k) + product(c, v, k);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("a recurrence takes the FLOPs of its states, and in chunks those of their products") {
  const RecurrenceRule rule = GENERATE(RecurrenceRule::gated_delta, RecurrenceRule::mamba2);
  const std::int64_t key_heads = GENERATE(1, 2);
  const RecurrenceDims d{rule, 2, 4, 256, key_heads, 8, 16};
  CHECK(d.needed_flops() == by_positions(d));
  CHECK(d.chunked_flops() == by_chunks(d));
  CHECK(matrix_flops(Recurrence{d}) == Flops(by_chunks(d)));
  CHECK(matrix_flops(RecurrenceBackward{d}) == Flops(3 * by_chunks(d)));
  CHECK(traffic(RecurrenceBackward{d}, DType::bf16) == 3 * traffic(Recurrence{d}, DType::bf16));
}

TEST_CASE("a recurrence moves its operands, and states of chunks") {
  const RecurrenceDims d{RecurrenceRule::mamba2, 1, 4, 256, 2, 8, 16};
  const std::int64_t operands = 256 * (2 * 2 * 8 + 4 * 16 + 4 + 4 * 16), scores = 256 * 2 * 128, states = 2 * 4 * 8 * 16;
  CHECK(traffic(Recurrence{d}, DType::bf16).count() == 2 * (operands + 2 * scores) + 4 * 4 * states);
  CHECK(traffic(ShortConv{d, 4, false}, DType::bf16).count() == 2 * 96 * (2 * 256 + 4));
  CHECK(traffic(GatedNorm{256, 4, 16, true, 1e-5}, DType::bf16).count() == 2 * 3 * 256 * 64);
}

TEST_CASE("pairs of positions are those of chunks, of which the last one may be short") {
  const RecurrenceDims d{RecurrenceRule::gated_delta, 2, 4, 64 + 10, 2, 8, 16};
  CHECK(d.pairs() == 2 * (64 * 64 + 10 * 10));
  CHECK(d.chunked_flops() - d.needed_flops() == d.pairs() * (6 * 4 * 8 + 4 * 4 * 16));
}

TEST_CASE("only block-level indexers have no kernels") {
  const RecurrenceDims d{RecurrenceRule::gated_delta, 1, 4, 64, 2, 8, 16};
  CHECK(is_simulated_only(IndexBlocks{}));
  for (const Op& op : {Op(Recurrence{d}), Op(RecurrenceBackward{d}), Op(ShortConv{d, 4, false}), Op(SigmoidGate{64})})
    CHECK(!is_simulated_only(op));
}
