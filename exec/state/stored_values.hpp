#pragma once
// Conversion between numbers and their stored form in buffers and files.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/state/block.hpp"
#include "models/base/dtype.hpp"

namespace tandem::exec {

/// Bytes per number of fp64, fp32, bf16 or fp16. Other types throw ContractError.
std::size_t stored_bytes(DType type);

/// Reads to.size() numbers as fp64. Numbers of nf4 are whole blocks.
void load_values(DType type, const std::byte* from, std::span<double> to);
/// Writes from.size() numbers, rounded to `type`. Numbers of nf4 are quantized block by block, after rounding to fp32.
void store_values(DType type, std::span<const double> from, std::byte* to);

/// Converts as many values as fill `to` from one type to another. If the types are equal, the bits are kept.
void convert_values(DType from_type, const std::byte* from, DType to_type, std::span<std::byte> to);

/// Whether no value is NaN or infinite: in none are all bits of the exponent set.
bool all_finite(DType type, std::span<const std::byte> values);

/// The values of a block, row by row.
struct BlockValues {
  Block block;
  DType type;
  const std::byte* values;
};

/// Where a rank holds a block, row by row.
struct BlockPlace {
  Memory* arena;
  std::size_t offset;  ///< byte offset of its first element
  DType type;
  Block block;
};

/// A quantized parameter lies in the buffer of such parameters, in their type, whatever `buffer_offset` and `type` are.
BlockPlace place_of(const RankState& rank, const HeldBlock& held, std::int64_t buffer_offset, DType type);
/// The place of whole rows of the block.
BlockPlace rows_of(const BlockPlace& place, const Block& part);
/// The values at a place, row by row.
std::vector<std::byte> values_at(const BlockPlace& place, DType type);

/// Type in which files have the numbers of nf4. It holds them exactly, and quantizing them again gives the same codes and scales.
inline constexpr DType kDequantized = DType::fp32;

/// Writes the intersection of `from` and `to`. If the types are equal, the bits are kept.
void write_common(const BlockValues& from, const BlockPlace& to);

}  // namespace tandem::exec
