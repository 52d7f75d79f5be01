#pragma once
// Lists of chosen keys (models/ops/indexer.hpp), and helpers for one query and the keys of its list.

#include <algorithm>
#include <cstdint>
#include <span>

#include "exec/cpu/lanes.hpp"
#include "exec/shared/vector_math.hpp"

namespace tandem::exec::cpu {

/// chosen[rows, listed]: positions, ascending, then -1.
class KeyLists {
 public:
  KeyLists(const std::int32_t* chosen, std::int64_t listed) : chosen_(chosen), listed_(listed) {}

  std::span<const std::int32_t> of(std::int64_t row) const {
    const std::int32_t* first = chosen_ + row * listed_;
    return {first, std::find_if(first, first + listed_, [](std::int32_t key) { return key < 0; })};
  }

 private:
  const std::int32_t* chosen_;
  std::int64_t listed_;
};

/// to += factor from
template <class T>
void add_scaled(std::int64_t n, T factor, const T* from, T* to) {
  each(n, [=](std::int64_t i) { to[i] += factor * from[i]; });
}

}  // namespace tandem::exec::cpu
