#pragma once
// Conversion of parts of 16-bit tensors to fp32 and back.

#include "exec/backend/tensor.hpp"
#include "exec/cpu/lanes.hpp"
#include "models/base/narrow.hpp"

namespace tandem::exec::cpu {
namespace {  // compiled in each file, because files differ in their vector width

/// to[0, n) = elements [at, at + n) of a tensor in bf16 or fp16.
inline void widen(const Tensor& from, std::int64_t at, std::int64_t n, float* to) {
  const auto* bits = reinterpret_cast<const std::uint16_t*>(from.address) + at;
  if (from.dtype == DType::bf16) return each(n, [=](std::int64_t i) { to[i] = from_bf16(bits[i]); });
  each(n, [=](std::int64_t i) { to[i] = from_fp16(bits[i]); });
}

/// The inverse of widen(), rounding to nearest.
inline void narrow(const float* from, const Tensor& to, std::int64_t at, std::int64_t n) {
  auto* bits = reinterpret_cast<std::uint16_t*>(to.address) + at;
  if (to.dtype == DType::bf16) return each(n, [=](std::int64_t i) { bits[i] = to_bf16(from[i]); });
  each(n, [=](std::int64_t i) { bits[i] = to_fp16(from[i]); });
}

/// The inverse of widen(), rounding up or down by 32 random bits per element.
inline void narrow(const float* from, const Tensor& to, std::int64_t at, std::int64_t n, const std::uint32_t* random) {
  auto* bits = reinterpret_cast<std::uint16_t*>(to.address) + at;
  if (to.dtype == DType::bf16) return each(n, [=](std::int64_t i) { bits[i] = to_bf16(from[i], random[i]); });
  each(n, [=](std::int64_t i) { bits[i] = to_fp16(from[i], random[i]); });
}

}  // namespace
}  // namespace tandem::exec::cpu
