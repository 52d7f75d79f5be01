#pragma once
// Room of kernels outside of any plan's memory, like the panels that a product packs. It begins on a cache line: how a library
// multiplies, and so a product's last bits, may depend on where its operands begin.

#include <cstdint>
#include <memory>

namespace tandem::exec::cpu {

/// Elements that are not initialised.
template <class T>
class Room {
 public:
  Room() = default;
  explicit Room(std::int64_t elements)
      : bytes_(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(elements) * sizeof(T) + kLine)) {
    const auto past = reinterpret_cast<std::uintptr_t>(bytes_.get()) % kLine;
    data_ = reinterpret_cast<T*>(bytes_.get() + (past == 0 ? 0 : kLine - past));
  }
  T* data() const { return data_; }

 private:
  static constexpr std::size_t kLine = 64;
  std::unique_ptr<std::byte[]> bytes_;
  T* data_ = nullptr;
};

/// At least so many elements. A thread keeps its largest room of each type; the next call may take it.
template <class T>
T* product_room(std::int64_t elements) {
  thread_local Room<T> room;
  thread_local std::int64_t size = 0;
  if (size < elements) {
    room = {};
    room = Room<T>(elements);
    size = elements;
  }
  return room.data();
}

}  // namespace tandem::exec::cpu
