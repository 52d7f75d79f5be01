#include "exec/state/stored_values.hpp"

#include <cstring>
#include "exec/shared/nf4.hpp"
#include "models/base/error.hpp"
#include "models/base/narrow.hpp"

namespace tandem::exec {
namespace {

/// Storage type of a data type, with its conversions from and to fp64.
template <class T>
struct Native {
  using Stored = T;
  static T store(double v) { return static_cast<T>(v); }
  static double load(T v) { return static_cast<double>(v); }
};
struct StoredBf16 {
  using Stored = std::uint16_t;
  static std::uint16_t store(double v) { return to_bf16(static_cast<float>(v)); }
  static double load(std::uint16_t v) { return static_cast<double>(from_bf16(v)); }
};
struct StoredFp16 {
  using Stored = std::uint16_t;
  static std::uint16_t store(double v) { return to_fp16(static_cast<float>(v)); }
  static double load(std::uint16_t v) { return static_cast<double>(from_fp16(v)); }
};

/// Calls body(S), where S converts values stored as `t`.
template <class F>
void with_storage(DType t, F body) {
  switch (t) {
    case DType::fp64: return body(Native<double>());
    case DType::fp32: return body(Native<float>());
    case DType::bf16: return body(StoredBf16());
    case DType::fp16: return body(StoredFp16());
    default: throw ContractError("state is kept in fp64, fp32, bf16 or fp16");
  }
}

std::size_t in_bytes(std::int64_t elements, DType type) {
  const std::int64_t block = stored_block(type).elements;
  require(elements % block == 0, "a part of a block of quantized numbers");
  return static_cast<std::size_t>(bytes_of(type, elements).count());
}

void load_nf4(const std::byte* from, std::span<double> to) {
  require(to.size() % Nf4Block::kElements == 0, "a part of a block of quantized numbers");
  for (std::size_t at = 0; at < to.size(); at += Nf4Block::kElements, from += sizeof(Nf4Block)) {
    Nf4Block block;
    std::memcpy(&block, from, sizeof(block));
    for (int i = 0; i < Nf4Block::kElements; ++i) to[at + static_cast<std::size_t>(i)] = static_cast<double>(block.value(i));
  }
}

void store_nf4(std::span<const double> from, std::byte* to) {
  require(from.size() % Nf4Block::kElements == 0, "a part of a block of quantized numbers");
  for (std::size_t at = 0; at < from.size(); at += Nf4Block::kElements, to += sizeof(Nf4Block)) {
    float numbers[Nf4Block::kElements];
    for (std::size_t i = 0; i < Nf4Block::kElements; ++i) numbers[i] = static_cast<float>(from[at + i]);
    const Nf4Block block = nf4_block(numbers);
    std::memcpy(to, &block, sizeof(block));
  }
}

template <class Word>
bool no_exponent_is(Word largest, std::span<const std::byte> values) {
  bool found = false;
  for (std::size_t at = 0; at < values.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, values.data() + at, sizeof(Word));
    found |= (word & largest) == largest;
  }
  return !found;
}

/// Byte offset of an element from the block's first element.
std::size_t place_in(const Block& block, const Block& part, DType type) {
  return in_bytes((part.row - block.row) * block.cols + part.col - block.col, type);
}

}  // namespace

std::size_t stored_bytes(DType type) {
  std::size_t bytes = 0;
  with_storage(type, [&]<class Storage>(Storage) { bytes = sizeof(typename Storage::Stored); });
  return bytes;
}

bool all_finite(DType type, std::span<const std::byte> values) {
  switch (type) {
    case DType::fp64: return no_exponent_is<std::uint64_t>(0x7ff0'0000'0000'0000, values);
    case DType::fp32: return no_exponent_is<std::uint32_t>(0x7f80'0000, values);
    case DType::bf16: return no_exponent_is<std::uint16_t>(0x7f80, values);
    case DType::fp16: return no_exponent_is<std::uint16_t>(0x7c00, values);
    default: throw ContractError("state is kept in fp64, fp32, bf16 or fp16");
  }
}

void load_values(DType type, const std::byte* from, std::span<double> to) {
  if (type == DType::nf4) return load_nf4(from, to);
  with_storage(type, [&]<class Storage>(Storage) {
    using T = typename Storage::Stored;
    for (std::size_t i = 0; i < to.size(); ++i) {
      T value;
      std::memcpy(&value, from + i * sizeof(T), sizeof(T));
      to[i] = Storage::load(value);
    }
  });
}

void store_values(DType type, std::span<const double> from, std::byte* to) {
  if (type == DType::nf4) return store_nf4(from, to);
  with_storage(type, [&]<class Storage>(Storage) {
    using T = typename Storage::Stored;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const T value = Storage::store(from[i]);
      std::memcpy(to + i * sizeof(T), &value, sizeof(T));
    }
  });
}

void convert_values(DType from_type, const std::byte* from, DType to_type, std::span<std::byte> to) {
  if (from_type == to_type) return static_cast<void>(std::memcpy(to.data(), from, to.size()));
  const StoredBlock block = stored_block(to_type);
  std::vector<double> values(to.size() * 8 / static_cast<std::size_t>(block.bits) * static_cast<std::size_t>(block.elements));
  load_values(from_type, from, values);
  store_values(to_type, values, to.data());
}

BlockPlace place_of(const RankState& rank, const HeldBlock& held, std::int64_t buffer_offset, DType type) {
  if (held.param->quantized) {
    buffer_offset = state_offset(rank, kQuantizedWeights);
    require(buffer_offset >= 0, "a buffer that a rank does not have");
    const Program& program = *rank.program;
    const std::size_t at = in_bytes(held.at - program.quantized_from, program.quantized);
    return {rank.arena, static_cast<std::size_t>(buffer_offset) + at, program.quantized, held.block};
  }
  require(buffer_offset >= 0, "a buffer that a rank does not have");
  return {rank.arena, static_cast<std::size_t>(buffer_offset) + in_bytes(held.at, type), type, held.block};
}

BlockPlace rows_of(const BlockPlace& place, const Block& part) {
  require(part.col == place.block.col && part.cols == place.block.cols, "a part of rows");
  return {place.arena, place.offset + place_in(place.block, part, place.type), place.type, part};
}

std::vector<std::byte> values_at(const BlockPlace& place, DType type) {
  std::vector<std::byte> stored(in_bytes(place.block.elements(), place.type));
  place.arena->read(place.offset, stored);
  if (place.type == type) return stored;
  std::vector<std::byte> values(in_bytes(place.block.elements(), type));
  convert_values(place.type, stored.data(), type, values);
  return values;
}

void write_common(const BlockValues& from, const BlockPlace& to) {
  const Block common = meet(from.block, to.block);
  if (common.empty()) return;
  // If rows are contiguous in both blocks, they are written together.
  const bool one_line = common.cols == to.block.cols && common.cols == from.block.cols;
  const Block line{common.row, common.col, one_line ? common.rows : 1, common.cols};
  std::vector<std::byte> room(in_bytes(line.elements(), to.type));
  for (std::int64_t row = common.row; row < common.row + common.rows; row += line.rows) {
    const Block at{row, line.col, line.rows, line.cols};
    convert_values(from.type, from.values + place_in(from.block, at, from.type), to.type, room);
    to.arena->write(to.offset + place_in(to.block, at, to.type), room);
  }
}

}  // namespace tandem::exec
