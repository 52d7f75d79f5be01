#include "exec/cpu/gemm/cut.hpp"

#include <algorithm>
#include <array>

namespace tandem::exec::cpu {
namespace {

constexpr std::int64_t kLine = 64;  // pieces start at multiples of it: on cache lines if the operands do

/// True if oneDNN copies factors into panels first, as it does if both result dimensions are long (measured on AVX-512, 2.6.3).
/// Pieces too small for panels would take up to twice as long.
bool is_packed(std::int64_t m, std::int64_t n) {
  constexpr double kLimit = 0.0034;
  return 1.0 / static_cast<double>(m) + 1.0 / static_cast<double>(n) < kLimit;
}

std::int64_t extent_of(std::int64_t length, std::int64_t pieces) {
  return ((length + pieces - 1) / pieces + kLine - 1) / kLine * kLine;
}

/// The largest allowed number of pieces; 1 if no cut is allowed.
template <class Allowed>
std::int64_t pieces_of(std::int64_t length, Allowed allowed) {
  for (const std::int64_t pieces : {16, 8, 4, 2})
    if (extent_of(length, pieces) * (pieces - 1) < length && allowed(extent_of(length, pieces))) return pieces;
  return 1;
}

/// Each further piece of a sum costs a pass over the result and memory for another result, so pieces are long and few.
std::int64_t pieces_of_sum(std::int64_t k) {
  constexpr std::array<std::array<std::int64_t, 2>, 3> kLeast{{{8, 384}, {4, 192}, {2, 128}}};
  for (const auto& [pieces, least] : kLeast)
    if (k >= pieces * least) return pieces;
  return 1;
}

}  // namespace

Cut cut_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kWorthCutting = 1 << 22;  // in terms: 0.1 ms of one core
  if (m * n * k < kWorthCutting) return {};
  constexpr std::int64_t kShortest = 192, kShortestRows = 64, kEnough = 4;
  const bool packed = is_packed(m, n);
  const std::int64_t columns = pieces_of(n, [&](std::int64_t e) { return e >= kShortest && (!packed || is_packed(m, e)); });
  const std::int64_t rows = pieces_of(m, [&](std::int64_t e) { return packed ? is_packed(e, n) : e >= kShortestRows; });
  const std::int64_t sums = packed && std::max(columns, rows) < kEnough ? pieces_of_sum(k) : 1;
  if (sums > std::max(columns, rows)) return {CutAlong::sum, extent_of(k, sums)};
  const bool by_rows = packed ? rows > columns : columns < kEnough && rows > columns;
  if (by_rows) return {CutAlong::rows, extent_of(m, rows)};
  if (columns > 1) return {CutAlong::columns, extent_of(n, columns)};
  return {};
}

}  // namespace tandem::exec::cpu
