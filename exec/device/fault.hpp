#pragma once
// Invalid operands found by kernels: a number that the host reads at its next wait.

#include <cstdint>

#include "exec/shared/hd.hpp"

namespace tandem::exec::device {

enum class FaultKind : std::uint32_t { none, token, target, slot, capacity };

/// Lies in memory that the host can read. Of several faults any one is kept.
struct Fault {
  std::uint64_t packed = 0;  ///< upper half: FaultKind; lower half: the invalid number

  TANDEM_HD void set(FaultKind kind, std::int64_t number) volatile {
    packed = static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint32_t>(number);
  }
  FaultKind kind() const { return static_cast<FaultKind>(packed >> 32); }
  std::int32_t number() const { return static_cast<std::int32_t>(packed & 0xFFFFFFFF); }
};

}  // namespace tandem::exec::device
