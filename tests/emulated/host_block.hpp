#pragma once
// A block of a device's threads on the host: what exec/device's kernels ask of one. Threads take their turns forwards in blocks of
// even numbers and backwards in odd ones, so a kernel that depends on their order gives other results.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/device/chunk.hpp"

namespace tandem::tests {

class HostBlock {
 public:
  HostBlock(std::int64_t index, std::size_t shared_bytes) : index_(index), shared_(shared_bytes, std::byte{0xFF}) {}

  std::int64_t index() const { return index_; }
  std::byte* shared() { return shared_.data(); }
  void sync() {}

  template <class F>
  void each(std::int64_t n, F body) {
    if (index_ % 2 == 0)
      for (std::int64_t i = 0; i < n; ++i) body(i);
    else
      for (std::int64_t i = n; i-- > 0;) body(i);
  }
  /// In the device's order: by thread, then pairwise.
  template <class A, class F>
  A sum(std::int64_t n, F term) {
    return fold<A>(n, A{0}, term, [](A a, A b) { return a + b; });
  }
  template <class A, class F>
  A max(std::int64_t n, A start, F term) {
    return fold<A>(n, start, term, [](A a, A b) { return b > a ? b : a; });
  }
  template <class F>
  bool any(std::int64_t n, F test) {
    for (std::int64_t i = 0; i < n; ++i)
      if (test(i)) return true;
    return false;
  }
  void add(std::int64_t* to, std::int64_t value) { *to += value; }

 private:
  template <class A, class F, class Combine>
  A fold(std::int64_t n, A start, F term, Combine combine) {
    std::vector<A> lanes(exec::device::kThreads, start);
    for (std::int64_t i = 0; i < n; ++i) {
      A& lane = lanes[static_cast<std::size_t>(i % exec::device::kThreads)];
      lane = combine(lane, term(i));
    }
    for (std::size_t width = lanes.size() / 2; width > 0; width /= 2)
      for (std::size_t l = 0; l < width; ++l) lanes[l] = combine(lanes[l], lanes[l + width]);
    return lanes[0];
  }

  std::int64_t index_;
  std::vector<std::byte> shared_;
};

}  // namespace tandem::tests
