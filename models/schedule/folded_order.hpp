#pragma once
// Writes the order of a stage whose two chunks lie in a V.

#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/schedule/schedule_shape.hpp"

namespace tandem {

/// Adds passes. Each chunk's micro-batches ascend.
class FoldedOrder {
 public:
  enum class Half : std::uint8_t { both, inputs };

  void forward(std::int32_t chunk) { order_.push_back({Phase::forward, forwards_[static_cast<std::size_t>(chunk)]++, chunk}); }
  void backward(std::int32_t chunk, Half half = Half::inputs) {
    const std::int32_t mb = backwards_[static_cast<std::size_t>(chunk)]++;
    order_.push_back({Phase::backward, mb, chunk, half == Half::both});
    if (half == Half::inputs) left_.push_back({Phase::weight, mb, chunk});
  }
  /// The weight pass that was deferred first.
  void weight() { take_weight(left_.begin()); }
  /// Likewise, of one chunk.
  void weight(std::int32_t chunk) {
    take_weight(std::find_if(left_.begin(), left_.end(), [&](const Action& a) { return a.chunk == chunk; }));
  }
  std::vector<Action> take() { return std::move(order_); }

 private:
  void take_weight(std::deque<Action>::iterator first) {
    require(first != left_.end(), "a weight pass without its backward pass");
    order_.push_back(*first);
    left_.erase(first);
  }

  std::array<std::int32_t, 2> forwards_{}, backwards_{};
  std::deque<Action> left_;  ///< weight passes that were deferred
  std::vector<Action> order_;
};

}  // namespace tandem
