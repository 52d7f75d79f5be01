#include "models/arguments/loss_chunks.hpp"

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace tandem::arguments {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMost = std::uint64_t{1} << 40;

/// 0 if it is no whole number that can be counted here.
std::uint64_t count(const json& v) {
  const bool whole = v.is_number_integer() && v > 0 && v <= kMost;
  return whole ? v.get<std::uint64_t>() : 0;
}

std::uint64_t parts(std::uint64_t whole, std::uint64_t size) { return (whole + size - 1) / size; }

}  // namespace

/// linkedin/Liger-Kernel ead96b61: src/liger_kernel/ops/fused_linear_cross_entropy.py, fused_linear_cross_entropy_forward: inc_factor,
/// chunk_size and num_chunks; the same since 6b514be2 (2024-08-07).
json liger_chunks(const json& tokens, const json& vocabulary, const json& hidden) {
  const std::uint64_t rows = count(tokens), words = count(vocabulary), width = count(hidden);
  if (rows == 0 || words == 0 || width == 0) return nullptr;
  const std::uint64_t chunk = std::bit_ceil(parts(rows, parts(words, width)));
  return chunk >= rows ? json(1) : rows % chunk == 0 ? json(rows / chunk) : json();
}

}  // namespace tandem::arguments
