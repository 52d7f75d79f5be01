#include "exec/device/piece_ranges.hpp"

#include <algorithm>

namespace tandem::exec::device {

std::vector<PieceRange> piece_ranges(std::span<const PieceRow> rows) {
  std::vector<PieceRange> all;
  for (std::size_t p = 0; p < rows.size(); ++p)
    for (std::int64_t first = 0, end = 0; first < rows[p].count; first = end) {
      const std::int64_t flat = rows[p].flat + first;
      end = std::min(rows[p].count, (flat / kNormBlock * kNormBlock + kRangeElements) - rows[p].flat);
      all.push_back({first, end - first, static_cast<std::int32_t>(p)});
    }
  return all;
}

std::int64_t end_of_states(std::span<const PieceRow> rows) {
  std::int64_t end = 0;
  for (const PieceRow& p : rows) end = std::max(end, p.state + p.count);
  return end;
}

std::int64_t end_of_squares(std::span<const PieceRow> rows) {
  std::int64_t end = 0;
  for (const PieceRow& p : rows)
    if (!p.matrices.any()) end = std::max(end, p.second() + p.count);
  return end;
}

std::int64_t end_of_parameters(std::span<const PieceRow> rows) {
  std::int64_t end = 0;
  for (const PieceRow& p : rows) end = std::max(end, std::int64_t{p.global_index} + 1);
  return end;
}

}  // namespace tandem::exec::device
