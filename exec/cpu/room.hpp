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

/// Room that grows with what is asked of it and stays.
template <class T>
class KeptRoom {
 public:
  /// At least so many elements; what the last call gave is gone.
  T* at_least(std::int64_t elements) {
    if (size_ < elements) {
      room_ = {};
      room_ = Room<T>(elements);
      size_ = elements;
    }
    return room_.data();
  }

 private:
  Room<T> room_;
  std::int64_t size_ = 0;
};

/// Where a thread forms a product that is added later; the next call takes it.
template <class T>
T* product_room(std::int64_t elements) {
  thread_local KeptRoom<T> room;
  return room.at_least(elements);
}

}  // namespace tandem::exec::cpu
