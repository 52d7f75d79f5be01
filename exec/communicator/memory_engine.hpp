#pragma once
// What moves and adds the bytes of ranks that share an address space: the host, or a device that they share.

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/base/dtype.hpp"
#include "models/ops/communication.hpp"

namespace tandem::exec {

/// Left fold of elements [begin, end) over `in`, ascending, in fp32 where they have 16 bits, rounded once; element `begin` goes to
/// element `to` of every output. An output may be an input.
struct Fold {
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;
  std::int64_t begin, end, to;
  DType type;
  Reduce reduce;
};

/// Any thread may call; a thread's calls are done, in order, when its finish() returns. Throws DeviceError.
class MemoryEngine {
 public:
  virtual ~MemoryEngine() = default;
  virtual void copy(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
  virtual void fold(const Fold& fold) = 0;
  virtual void finish() = 0;
};

/// Of memory that the host reaches. Calls are done when they return.
MemoryEngine& host_engine();

}  // namespace tandem::exec
