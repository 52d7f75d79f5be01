#pragma once
// Scratch memory of kernels, outside the plan's memory. It starts on a cache line, because a library's kernel, and so a product's
// last bits, may depend on the alignment of its operands.

#include <cstdint>
#include <memory>

namespace tandem::exec::cpu {

/// Uninitialised scratch memory.
template <class T>
class ScratchArray {
 public:
  ScratchArray() = default;
  explicit ScratchArray(std::int64_t elements)
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

/// Scratch memory that grows on demand and is kept.
template <class T>
class GrowingScratch {
 public:
  /// At least `elements` elements. Invalidates the memory of the previous call.
  T* at_least(std::int64_t elements) {
    if (size_ < elements) {
      array_ = {};
      array_ = ScratchArray<T>(elements);
      size_ = elements;
    }
    return array_.data();
  }

 private:
  ScratchArray<T> array_;
  std::int64_t size_ = 0;
};

/// A thread's scratch memory for a product that is added afterwards. The next call reuses it.
template <class T>
T* product_scratch(std::int64_t elements) {
  thread_local GrowingScratch<T> scratch;
  return scratch.at_least(elements);
}

}  // namespace tandem::exec::cpu
