#pragma once
// Conversions between 16-bit floats, as bits, and fp32: bf16 (upper half of fp32) and
// fp16 (IEEE 754 binary16). No function branches on the value, so that loops vectorise.

#include <bit>
#include <cstdint>

namespace tandem {

/// bf16 to fp32, exact. Keeps a NaN's bits.
constexpr float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// fp32 to bf16, to nearest, ties to even; infinity beyond the largest number. A NaN stays a NaN.
constexpr std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest = bits + 0x7FFF + (bits >> 16 & 1), quiet = bits | 0x400000;
  return static_cast<std::uint16_t>(((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : nearest) >> 16);
}

/// fp16 to fp32, exact.
constexpr float from_fp16(std::uint16_t bits) {
  // fp16's exponent in fp32's place is 112 too small; the product puts subnormal numbers right, too.
  const auto magnitude = static_cast<std::uint32_t>(bits & 0x7FFF) << 13, sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  const std::uint32_t special = scaled >= 0x47800000 ? 0x7F800000U : 0U;  // 65536 and above become infinity or NaN
  return std::bit_cast<float>(scaled | special | sign);
}

/// fp32 to fp16, to nearest, ties to even, subnormals included; infinity from 65520 on. A NaN stays a NaN.
constexpr std::uint16_t to_fp16(float value) {
  constexpr std::uint32_t kInfinity = 0x7F800000, kBeyond = 0x47800000, kLeastNormal = 0x38800000, kHalf = 0x3F000000;
  const auto bits = std::bit_cast<std::uint32_t>(value), magnitude = bits & 0x7FFFFFFF;
  // A half plus a subnormal number rounds it to fp16's least step, which is then the step of fp32.
  const float lifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kHalf);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(lifted) - kHalf;
  const std::uint32_t normal = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  const std::uint32_t special = magnitude > kInfinity ? 0x7E00U : 0x7C00U;
  const std::uint32_t finite = magnitude < kLeastNormal ? subnormal : normal;
  return static_cast<std::uint16_t>((magnitude >= kBeyond ? special : finite) | (bits >> 16 & 0x8000));
}

/// Stochastic rounding to one of the two neighbours, so that the mean is the value.
/// `random`: 32 uniform bits. Beyond the largest number, and for NaN, rounds to nearest.
constexpr std::uint16_t to_bf16(float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool inside = (bits & 0x7FFFFFFF) < 0x7F7F0000;
  return inside ? static_cast<std::uint16_t>((bits + (random & 0xFFFF)) >> 16) : to_bf16(value);
}
constexpr std::uint16_t to_fp16(float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value), magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= 0x477FE000) return to_fp16(value);
  const std::uint32_t normal = (magnitude - 0x38000000 + (random & 0x1FFF)) >> 13;
  const float steps = std::bit_cast<float>(magnitude) * 0x1p24F + static_cast<float>(random >> 8) * 0x1p-24F;
  const auto subnormal = magnitude < 0x38800000 ? static_cast<std::uint32_t>(steps) : 0U;
  return static_cast<std::uint16_t>((magnitude < 0x38800000 ? subnormal : normal) | (bits >> 16 & 0x8000));
}

}  // namespace tandem
