#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/base/units.hpp"

namespace tandem {

/// Element types of tensors and of arithmetic. tf32 is stored in 32 bits.
enum class DType : std::uint8_t { fp64, fp32, tf32, bf16, fp16, fp8, mxfp8, nvfp4, int32, int64 };

/// Storage bits of one element, block scales of mxfp8/nvfp4 not counted.
constexpr int bits(DType t) {
  switch (t) {
    case DType::fp64: case DType::int64: return 64;
    case DType::fp32: case DType::tf32: case DType::int32: return 32;
    case DType::bf16: case DType::fp16: return 16;
    case DType::fp8: case DType::mxfp8: return 8;
    case DType::nvfp4: return 4;
  }
  return 0;
}

/// Bytes of n elements, rounded up to whole bytes.
constexpr Bytes bytes_of(DType t, std::int64_t n) { return Bytes((n * bits(t) + 7) / 8); }

/// What 8- and 4-bit recipes compute everything in but the products of linear layers (arXiv 2209.05433): bf16 for those types,
/// the type itself otherwise.
constexpr DType activation_type(DType compute) { return bits(compute) < 16 ? DType::bf16 : compute; }

/// "fp32", "bf16" ...
std::string_view name(DType t);
std::optional<DType> dtype_from_name(std::string_view s);

}  // namespace tandem
