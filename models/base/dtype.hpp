#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/base/units.hpp"

namespace tandem {

/// Element types of tensors and of arithmetic. tf32 is stored in 32 bits. fp8 has one scale per tensor. fp8_block has
/// one per tile: 1 x 128 elements of activations and gradients, 128 x 128 of weights (arXiv 2412.19437 section 3.3.2).
/// nf4 and nf4_double only store frozen weights, and dynamic8 only an optimizer's moments, in blocks with scales (stored_block).
enum class DType : std::uint8_t {
  fp64, fp32, tf32, bf16, fp16, fp8, fp8_block, mxfp8, nvfp4, nf4, nf4_double, dynamic8, int32, int64
};

/// Storage bits of one element, block scales not counted.
constexpr int bits(DType t) {
  switch (t) {
    case DType::fp64: case DType::int64: return 64;
    case DType::fp32: case DType::tf32: case DType::int32: return 32;
    case DType::bf16: case DType::fp16: return 16;
    case DType::fp8: case DType::fp8_block: case DType::mxfp8: case DType::dynamic8: return 8;
    case DType::nvfp4: case DType::nf4: case DType::nf4_double: return 4;
  }
  return 0;
}

/// Elements and bytes of what a type stores together: one element, except in blocks with scales between their elements.
struct StoredBlock {
  std::int64_t elements = 1, bits = 0;
};
/// nf4: 64 codes and an fp32 scale. nf4_double: 256 times 64 codes and an 8-bit scale, and two fp32 numbers of these scales
/// (QLoRA, arXiv 2305.14314 section 3). dynamic8: 256 codes and an fp32 scale (arXiv 2110.02861, in bitsandbytes' and torchao's blocks).
constexpr StoredBlock stored_block(DType t) {
  if (t == DType::nf4) return {64, 64 * 4 + 32};
  if (t == DType::nf4_double) return {256 * 64, 256 * (64 * 4 + 8) + 2 * 32};
  if (t == DType::dynamic8) return {256, 256 * 8 + 32};
  return {1, bits(t)};
}

/// Bytes of n elements, rounded up to whole bytes.
constexpr Bytes bytes_of(DType t, std::int64_t n) {
  const StoredBlock block = stored_block(t);
  const std::int64_t unit = 8 * block.elements;
  return Bytes((n * block.bits + unit - 1) / unit);
}

/// Bytes of the scales of n elements in rows: one fp32 per 128 elements of fp8_block, one byte per 32 of mxfp8 and per 16 of nvfp4.
constexpr Bytes row_scale_bytes(DType t, std::int64_t n) {
  if (t == DType::fp8_block) return Bytes(4 * ((n + 127) / 128));
  if (t == DType::mxfp8) return Bytes((n + 31) / 32);
  return t == DType::nvfp4 ? Bytes((n + 15) / 16) : Bytes(0);
}

/// Type of everything except linear layers' products: bf16 in 8-
/// and 4-bit recipes (arXiv 2209.05433), else the type itself.
constexpr DType activation_type(DType compute) { return bits(compute) < 16 ? DType::bf16 : compute; }

/// "fp32", "bf16" ...
std::string_view name(DType t);
std::optional<DType> dtype_from_name(std::string_view s);

}  // namespace tandem
