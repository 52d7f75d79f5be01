#include "models/lowering/stage/muon_matrices.hpp"

#include <algorithm>

namespace tandem::lowering {
namespace {

bool alike(const MuonMatrices& a, const MuonMatrices& b) {
  return a.rows == b.rows && a.cols == b.cols && a.whole_rows == b.whole_rows && a.whole_cols == b.whole_cols;
}

}  // namespace

std::vector<MuonMatrices> muon_matrices(std::span<const Param> params) {
  std::vector<MuonMatrices> all;
  const auto add = [&](const MuonMatrices& m) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const MuonMatrices& o) { return alike(o, m); });
    if (same == all.end()) all.push_back(m);
    else same->count += m.count;
  };
  for (const Param& p : params)
    for (int part = 0; p.matrices.any() && part < kMostParts; ++part)
      if (const std::int64_t rows = p.matrices.rows(part); rows > 0)
        add({p.matrices.stacked, rows, p.matrices.cols, rows * p.matrices.row_ranks, p.matrices.cols * p.matrices.col_ranks});
  return all;
}

}  // namespace tandem::lowering
