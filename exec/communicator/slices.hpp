#pragma once
// How a collective's elements and rows are divided among its members.

#include <cstdint>
#include <numeric>

#include "models/ops/op.hpp"
#include "models/ops/row_capacity.hpp"

namespace tandem::exec {

struct Slice {
  std::int64_t begin, end;  ///< elements
  std::int64_t count() const { return end - begin; }
};

inline std::int64_t element_bytes(DType t) { return bits(t) / 8; }

/// Slice `index` of as many slices as there are `members`. Sizes differ by at most one element.
inline Slice slice(const Collective& op, std::size_t members, std::size_t index) {
  const auto n = static_cast<std::int64_t>(members), r = static_cast<std::int64_t>(index);
  return {op.elements * r / n, op.elements * (r + 1) / n};
}

/// Bytes of one share if all members have equal shares.
inline std::int64_t share_bytes(const Collective& op, std::size_t members) {
  return op.elements / static_cast<std::int64_t>(members) * element_bytes(op.dtype);
}

/// Number of rows for `member`. `counts` holds `each` numbers for every member.
inline std::int64_t rows_for(const std::int32_t* counts, std::int64_t each, std::size_t member) {
  const std::int32_t* first = counts + static_cast<std::int64_t>(member) * each;
  return std::accumulate(first, first + each, std::int64_t{0});
}

/// Number of rows for all members before `member`.
inline std::int64_t rows_before(const std::int32_t* counts, std::int64_t each, std::size_t member) {
  return std::accumulate(counts, counts + static_cast<std::int64_t>(member) * each, std::int64_t{0});
}

}  // namespace tandem::exec
