#pragma once
// Constants of Muon's Newton-Schulz iteration, and which matrices of a parameter an update has.

#include "models/graph/matrix_parts.hpp"
#include "models/ops/update.hpp"

namespace tandem::exec {

/// X = a X + (b A + c A A) X with A = X X^T (arXiv 2502.16982, section 2.1).
struct NewtonSchulz {
  double a, b, c;
};
inline constexpr NewtonSchulz kNewtonSchulz{3.4445, -4.7750, 2.0315};
/// Added to the Frobenius norm that the first X is divided by, as in Moonlight's Muon.
inline constexpr double kMuonEpsilon = 1e-7;

/// Whether part `part` of such a parameter has the shape of `op`.
constexpr bool is_of(const Muon& op, const MatrixParts& p, int part) {
  const std::int64_t rows = p.any() ? p.rows(part) : 0;
  const bool whole = rows * p.row_ranks == op.whole_rows && p.cols * p.col_ranks == op.whole_cols;
  return rows > 0 && rows == op.rows && p.cols == op.cols && whole;
}

}  // namespace tandem::exec
