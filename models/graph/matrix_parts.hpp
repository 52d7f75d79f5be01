#pragma once
// How Muon cuts a parameter into matrices. Each matrix is made orthogonal alone.

#include <cstdint>

namespace tandem {

inline constexpr int kMostParts = 3;

/// Equal matrices are stacked along the rows of a parameter: one for each expert, else one. A stacked matrix has `periods` equal blocks
/// of rows. Each block has up to three runs of rows, such as a group's queries, keys and values. Part i of a stacked matrix consists of
/// the i-th runs of all its blocks. All sizes are those of the rank's share.
struct MatrixParts {
  std::int64_t stacked = 0;                ///< 0: Muon does not update the parameter
  std::int64_t periods = 1;
  std::int64_t runs[kMostParts] = {0, 0, 0};  ///< rows; 0: there is no such part
  std::int64_t cols = 0;
  std::int64_t row_ranks = 1, col_ranks = 1;  ///< ranks that share the rows, or the columns, of a whole matrix

  constexpr bool any() const { return stacked > 0; }
  constexpr std::int64_t rows(int part) const { return periods * runs[part]; }
  constexpr std::int64_t period() const { return runs[0] + runs[1] + runs[2]; }
  /// The parameter's row that holds row `row` of a part of stacked matrix `index`.
  constexpr std::int64_t row_of(std::int64_t index, int part, std::int64_t row) const {
    const std::int64_t before = part == 0 ? 0 : part == 1 ? runs[0] : runs[0] + runs[1];
    return (index * periods + row / runs[part]) * period() + before + row % runs[part];
  }
};

}  // namespace tandem
