#pragma once
// How many rows a rank's experts have room for.

#include <cstdint>
#include <string>

#include "models/base/error.hpp"

namespace tandem {

/// Throws DeviceError if a rank's experts get more rows than its plan has room for.
inline void require_room(std::int64_t rows, std::int64_t room) {
  if (rows > room)
    throw DeviceError("experts of this rank get " + std::to_string(rows) + " rows, and " + std::to_string(room) +
                      " are planned for: raise model.moe.rows_bound");
}

}  // namespace tandem
