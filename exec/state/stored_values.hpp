#pragma once
// Numbers as buffers and files store them.

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/state/block.hpp"
#include "models/base/dtype.hpp"

namespace tandem::exec {

/// Of one number, in bytes. fp64, fp32, bf16 and fp16 are kept; ContractError for others.
std::size_t stored_bytes(DType type);

/// to.size() numbers.
void load_values(DType type, const std::byte* from, std::span<double> to);
/// from.size() numbers, rounded to the type.
void store_values(DType type, std::span<const double> from, std::byte* to);

/// A block's values, row by row.
struct BlockValues {
  Block block;
  DType type;
  const std::byte* values;
};

/// Where a rank keeps a block, row by row.
struct BlockPlace {
  Memory* arena;
  std::size_t offset;  ///< of its first element, in bytes
  DType type;
  Block block;
};

BlockPlace place_of(const RankState& rank, const HeldBlock& held, std::int64_t buffer_offset, DType type);

/// Writes what a place has in common with `from`. Values of the same type keep their bits.
void write_common(const BlockValues& from, const BlockPlace& to);

}  // namespace tandem::exec
