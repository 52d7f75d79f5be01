#pragma once
// The device's memory and pinned memory: blocks of the host's memory with red zones. Fresh and freed bytes are NaN in every type.

#include <cstddef>

namespace tandem::hostcuda {

enum class Kind { device, pinned };

/// nullptr if there is no room. Aligned to 256 bytes.
std::byte* take(Kind kind, std::size_t bytes);
enum class Given { back, unknown, damaged };
/// `damaged`: bytes before or behind the block were written.
Given give_back(Kind kind, void* data);
std::size_t taken_bytes(Kind kind);

/// True if the address lies in the device's memory, allocated or not.
bool of_device(const void* data);
/// True if the bytes lie in one block.
bool inside(Kind kind, const void* data, std::size_t bytes);

/// While one is there, device memory can be read and written. Matters only if settings().guards.
class Opened {
 public:
  Opened();
  ~Opened();
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  bool guards_;
};
/// Closes the device's memory until an operation opens it, or opens it for all if guards are off.
void apply_guards();

}  // namespace tandem::hostcuda
