#pragma once
// What kernels find wrong with their operands: a number that the host reads when it next waits.

#include <cstdint>

#include "exec/shared/hd.hpp"

namespace tandem::exec::device {

enum class FaultKind : std::uint32_t { none, token, target, slot };

/// In memory that the host reads, too. Any one of several faults stays.
struct Fault {
  std::uint64_t packed = 0;  ///< kind in the upper half, the number that is wrong in the lower

  TANDEM_HD void set(FaultKind kind, std::int64_t number) volatile {
    packed = static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint32_t>(number);
  }
  FaultKind kind() const { return static_cast<FaultKind>(packed >> 32); }
  std::int32_t number() const { return static_cast<std::int32_t>(packed & 0xFFFFFFFF); }
};

}  // namespace tandem::exec::device
