#pragma once
// What a context rank needs to compute its share of the heads over whole sequences: rows in the order of positions, and its heads'
// parameters. Conventions: models/ops/op.hpp. Facts: NVIDIA/Megatron-LM, megatron/core/ssm/mamba_context_parallel.py.

#include <cstdint>

#include "models/ops/attention.hpp"

namespace tandem {

/// Sorts rows of all context ranks, (context rank, sequence, local position), by position: (sequence, position). `inverse`: sorts
/// them back. in: x[batch*seq, cols]; out: y
struct OrderRows {
  std::int64_t batch, seq, cols, shards;  ///< seq: positions of a whole sequence; shards: context ranks
  bool inverse = false;
  constexpr std::int64_t elements() const { return batch * seq * cols; }
  /// Positions of one of the two pieces that each rank holds.
  constexpr std::int64_t piece() const { return seq / (2 * shards); }
  constexpr bool divides() const { return shards > 1 && seq % (2 * shards) == 0; }
};

/// The part of x[rows, cols] that PackColumns gives to this context rank. in: x; out: y[rows, part_cols]
struct TakePart : ColumnParts {};
/// Gradient of TakePart: dy in its place, 0 elsewhere. in: dy; out: dx
struct PlacePart : ColumnParts {};

}  // namespace tandem
