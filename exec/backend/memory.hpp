#pragma once
// Memory that a backend has allocated.

#include <cstddef>
#include <span>

namespace tandem::exec {

/// Aligned to kArenaAlignment. The host accesses it only through read, write and fill, which take byte offsets and block until they
/// are done. No queue may be using the same bytes meanwhile.
class Memory {
 public:
  virtual ~Memory() = default;
  /// The base address, for tensors. The host must not dereference it.
  virtual std::byte* address() = 0;
  virtual std::size_t size() const = 0;
  virtual void read(std::size_t at, std::span<std::byte> to) const = 0;
  virtual void write(std::size_t at, std::span<const std::byte> from) = 0;
  virtual void fill(std::size_t at, std::size_t bytes, std::byte value) = 0;
};

template <class T>
T read_value(const Memory& memory, std::size_t at) {
  T value;
  memory.read(at, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

template <class T>
void write_value(Memory& memory, std::size_t at, const T& value) {
  memory.write(at, std::as_bytes(std::span(&value, 1)));
}

}  // namespace tandem::exec
