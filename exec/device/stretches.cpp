#include "exec/device/stretches.hpp"

#include <algorithm>

namespace tandem::exec::device {

std::vector<Stretch> stretches_of(std::span<const PieceRow> rows) {
  std::vector<Stretch> all;
  for (std::size_t p = 0; p < rows.size(); ++p)
    for (std::int64_t first = 0, end = 0; first < rows[p].count; first = end) {
      const std::int64_t flat = rows[p].flat + first;
      end = std::min(rows[p].count, (flat / kNormBlock * kNormBlock + kStretch) - rows[p].flat);
      all.push_back({first, end - first, static_cast<std::int32_t>(p)});
    }
  return all;
}

}  // namespace tandem::exec::device
