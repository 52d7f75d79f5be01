#pragma once
// The two ends of a model: embedding, and the loss over a vocabulary. Conventions: models/ops/op.hpp.

#include <cstdint>

namespace tandem {

/// Rows of a vocabulary shard; tokens outside the shard give zero rows. The shard of tensor rank t starts at
/// t*vocab_rows; a `whole` table has all rows on every rank. `add`: y += rows.
/// in: tokens[T] (int32), table[vocab_rows, hidden], [y when add]; out: y[T, hidden]
struct Embedding { std::int64_t tokens, hidden, vocab_rows; bool whole = false, add = false; };
/// dtable is zeroed, then tokens are added in ascending order. in: tokens, dy; out: dtable
struct EmbeddingBackward { std::int64_t tokens, hidden, vocab_rows; bool whole = false; };
/// y = dropout(x + position[pos]) (position omitted when !learned). seq: positions of this context rank; rows = batch*seq, or
/// a sequence shard of them. in: x[rows, hidden], [table[max_positions, hidden]]; out: y
struct PositionDropout {
  std::int64_t batch, seq, hidden;
  double dropout;
  bool learned;
  bool shard = false;
  std::int64_t rows = 0;
  bool documents = false;  ///< positions count from the first one of each document
};
/// in: dy; out: dx, [dposition[max_positions, hidden] when learned; rows nobody here uses are zeroed]
struct PositionDropoutBackward {
  std::int64_t batch, seq, hidden, max_positions;
  double dropout;
  bool learned;
  bool shard = false;
  std::int64_t rows = 0;
  bool documents = false;
};
/// The first row of every sequence: y[batch, hidden] = x[batch, 0, hidden]. in: x[batch*seq, hidden]; out: y
struct TakeFirst { std::int64_t batch, seq, hidden; };
/// Adds dy to the first rows. in: dy, dx(inout); out: dx
struct TakeFirstBackward { std::int64_t batch, seq, hidden; };

/// Shared by the three vocabulary-parallel loss operations: rows = T, cols = columns of this shard (padded),
/// `vocab_size` the unpadded vocabulary: columns at or beyond it take no part. `whole`: every rank has all columns. A row
/// whose target is negative has no loss and no gradient.
struct VocabDims { std::int64_t rows, cols, vocab_size; bool whole = false; };
/// in: logits; out: max[rows]
struct VocabMax { VocabDims dims; };
/// in: logits, max (global), targets (int32); out: sums[2,rows] = (sum exp(x-max), target logit - max or 0)
struct VocabExpSum { VocabDims dims; };
/// Computes the loss and its gradient, both divided by the targets in the *global* batch, so that they only need sums. That divisor
/// is `global_tokens`, unless the step's data has masked targets and counts its own.
/// The gradient is multiplied by the step's loss scale. `weight`: factor of both, for one of several losses.
/// in: logits, max, sums (global), targets; out: loss[1] fp64 (inout unless `first`), dlogits[rows,cols]
/// `one_kernel`: maximum and sums in the same kernel, if this rank has all columns.
/// in: logits, targets, [loss]; out: as above
struct CrossEntropy { VocabDims dims; std::int64_t global_tokens; bool first; bool one_kernel = false; double weight = 1; };

}  // namespace tandem
