#include "exec/weights/scaled_blocks.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace tandem::exec {

float from_e4m3(std::uint8_t bits) {
  constexpr int kBias = 7, kMantissa = 3;
  const int exponent = bits >> kMantissa & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << kMantissa);
  const float size = std::ldexp(static_cast<float>(whole), (exponent == 0 ? 1 : exponent) - kBias - kMantissa);
  return (bits & 128) != 0 ? -size : size;
}

std::optional<ScaledBlocks> ScaledBlocks::of(const WeightFiles& files, const StoredTensor& matrix, const StoredTensor& scales,
                                             std::int64_t block) {
  if (block <= 0 || matrix.shape.size() != 2 || scales.type != DType::fp32) return std::nullopt;
  const auto blocks = [block](std::int64_t n) { return (n + block - 1) / block; };
  if (scales.shape != std::vector{blocks(matrix.shape[0]), blocks(matrix.shape[1])}) return std::nullopt;
  ScaledBlocks out;
  out.block_ = block;
  out.across_ = scales.shape[1];
  out.scales_.resize(static_cast<std::size_t>(scales.elements()));
  files.read(scales, 0, std::as_writable_bytes(std::span(out.scales_)));
  return out;
}

std::vector<std::byte> ScaledBlocks::numbers(const WeightFiles& files, const StoredTensor& matrix, std::int64_t first,
                                             std::int64_t count) const {
  std::vector<std::uint8_t> stored(static_cast<std::size_t>(count));
  files.read(matrix, static_cast<std::uint64_t>(first), std::as_writable_bytes(std::span(stored)));
  std::vector<std::byte> out(stored.size() * sizeof(float));
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::int64_t at = first + static_cast<std::int64_t>(i), row = at / matrix.shape[1], col = at % matrix.shape[1];
    const float value = from_e4m3(stored[i]) * scales_[static_cast<std::size_t>(row / block_ * across_ + col / block_)];
    std::memcpy(out.data() + i * sizeof(float), &value, sizeof value);
  }
  return out;
}

}  // namespace tandem::exec
