#pragma once
// How many rows a rank's experts have memory for.

#include <cstdint>
#include <string>

#include "models/base/error.hpp"
#include "models/base/ids.hpp"

namespace tandem {

/// A rank's experts get more rows than its plan has memory for.
class RowsError : public DeviceError {
 public:
  explicit RowsError(std::int64_t rows, std::int64_t capacity = 0, Rank rank = {})
      : DeviceError("experts get " + std::to_string(rows) + " rows, more than are planned for: raise model.moe.rows_bound"),
        rows_(rows),
        capacity_(capacity),
        rank_(rank) {}

  std::int64_t rows() const { return rows_; }
  /// 0: unknown, because a device reported it after later work.
  std::int64_t capacity() const { return capacity_; }
  /// Whose experts they are; invalid: those of the rank that throws.
  Rank rank() const { return rank_; }

 private:
  std::int64_t rows_, capacity_;
  Rank rank_;
};

/// Throws RowsError if a rank's experts get more rows than its plan has memory for.
inline void require_capacity(std::int64_t rows, std::int64_t capacity) {
  if (rows > capacity) throw RowsError(rows, capacity);
}

}  // namespace tandem
