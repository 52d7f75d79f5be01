#pragma once
// How many rows a rank's experts have room for.

#include <cstdint>
#include <string>

#include "models/base/error.hpp"
#include "models/base/ids.hpp"

namespace tandem {

/// A rank's experts get more rows than its plan has room for.
class RowsError : public DeviceError {
 public:
  explicit RowsError(std::int64_t rows, std::int64_t room = 0, Rank rank = {})
      : DeviceError("experts get " + std::to_string(rows) + " rows, more than are planned for: raise model.moe.rows_bound"),
        rows_(rows),
        room_(room),
        rank_(rank) {}

  std::int64_t rows() const { return rows_; }
  /// 0: unknown, as a device told it behind later work.
  std::int64_t room() const { return room_; }
  /// Whose experts they are; invalid: those of the rank that throws.
  Rank rank() const { return rank_; }

 private:
  std::int64_t rows_, room_;
  Rank rank_;
};

/// Throws RowsError if a rank's experts get more rows than its plan has room for.
inline void require_room(std::int64_t rows, std::int64_t room) {
  if (rows > room) throw RowsError(rows, room);
}

}  // namespace tandem
