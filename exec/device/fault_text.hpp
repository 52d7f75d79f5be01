#pragma once
// Turns faults into errors.

#include <string>

#include "exec/device/fault.hpp"
#include "models/base/error.hpp"
#include "models/ops/row_capacity.hpp"

namespace tandem::exec::device {

/// Throws DeviceError if there is a fault.
inline void throw_of(const Fault& fault) {
  const std::string number = std::to_string(fault.number());
  switch (fault.kind()) {
    case FaultKind::none: return;
    case FaultKind::token: throw DeviceError("token " + number + " is outside the embedding table");
    case FaultKind::target: throw DeviceError("target " + number + " is outside the vocabulary");
    case FaultKind::slot: throw DeviceError("row " + number + " is beyond the experts' rows");
    case FaultKind::capacity: throw RowsError(fault.number());
  }
}

}  // namespace tandem::exec::device
