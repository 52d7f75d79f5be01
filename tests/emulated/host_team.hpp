#pragma once
// Threads of a block that work on one item together, on the host.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "exec/device/rows.hpp"
#include "models/base/error.hpp"

namespace tandem::tests {

/// In the device's order: the upper half of a warp into the lower one until one is left, then the warps alike.
template <class V, class Combine>
V join_threads(std::vector<V> values, Combine combine) {
  const auto halved = [&](std::size_t first, std::size_t step, std::size_t count) {
    for (std::size_t d = count / 2; d > 0; d /= 2)
      for (std::size_t l = 0; l < d; ++l)
        values[first + l * step] = combine(values[first + l * step], values[first + (l + d) * step]);
  };
  const std::size_t warp = values.size() < 32 ? values.size() : 32;
  for (std::size_t first = 0; first < values.size(); first += warp) halved(first, 1, warp);
  halved(0, warp, values.size() / warp);
  return values[0];
}

template <int kTeam>
class HostTeam {
 public:
  explicit HostTeam(bool forwards) : forwards_(forwards) {}

  template <class V, int K>
  class Held {
   public:
    V& operator[](exec::device::Slot at) { return v_.at(static_cast<std::size_t>(at.i)); }
    const V& operator[](exec::device::Slot at) const { return v_.at(static_cast<std::size_t>(at.i)); }

   private:
    std::vector<V> v_ = std::vector<V>(static_cast<std::size_t>(kTeam) * K);
  };

  template <int K, class F>
  void each(std::int64_t n, F body) const {
    require_held<K>(n);
    for (std::int64_t i = 0; i < n; ++i) body(slot(forwards_ ? i : n - 1 - i));
  }
  template <class V, int K, class F>
  V sum(std::int64_t n, V start, F term) const {
    require_held<K>(n);
    std::vector<V> values(kTeam, start);
    for (std::int64_t i = 0; i < n; ++i) {
      V& mine = values[static_cast<std::size_t>(i % kTeam)];
      mine = mine + term(slot(i));
    }
    return join_threads(std::move(values), [](const V& a, const V& b) { return a + b; });
  }
  template <class F>
  void one(F once) const {
    once();
  }

 private:
  /// A device's threads take K slots each and leave the rest.
  template <int K>
  static void require_held(std::int64_t n) {
    require(n <= std::int64_t{kTeam} * K, "more slots than a team's threads take");
  }
  static exec::device::Slot slot(std::int64_t i) { return {static_cast<int>(i / kTeam), i}; }

  bool forwards_;
};

}  // namespace tandem::tests
