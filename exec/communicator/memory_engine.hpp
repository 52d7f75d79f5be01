#pragma once
// Copies and reduces the bytes of ranks that share an address space: host memory, or the memory of one shared device.

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/base/dtype.hpp"
#include "models/ops/communication.hpp"

namespace tandem::exec {

/// Left fold of elements [begin, end) over the inputs in ascending order. 16-bit types are summed in fp32 and rounded once. Element
/// `begin` is written to element `to` of every output. An output may be an input.
struct Fold {
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;
  std::int64_t begin, end, to;
  DType type;
  Reduce reduce;
};

/// Thread-safe. When finish() returns, the calling thread's earlier calls are done, in order. Throws DeviceError.
class MemoryEngine {
 public:
  virtual ~MemoryEngine() = default;
  virtual void copy(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
  virtual void fold(const Fold& fold) = 0;
  virtual void finish() = 0;
};

/// The engine for host memory. Its calls are done when they return.
MemoryEngine& host_engine();

}  // namespace tandem::exec
