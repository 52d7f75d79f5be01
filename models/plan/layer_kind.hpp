#pragma once
// Properties in which the layers of one stack differ: the mixer of positions and the feed-forward part.

#include <cstddef>
#include <cstdint>

namespace tandem {

/// Full attention, attention to a window, attention to keys that an indexer chooses, a recurrence, or none.
enum class Mixer : std::uint8_t { full, windowed, indexed, recurrence, none };
enum class FeedForward : std::uint8_t { mlp, experts, none };

inline constexpr std::size_t kMixers = 5, kFeedForwards = 3;
inline constexpr std::size_t kLayerKinds = kMixers * kFeedForwards;

struct LayerKind {
  Mixer mixer = Mixer::full;
  FeedForward feed = FeedForward::mlp;

  bool has_experts() const { return feed == FeedForward::experts; }
  bool has_attention() const { return mixes() && !has_recurrence(); }
  bool has_recurrence() const { return mixer == Mixer::recurrence; }
  bool mixes() const { return mixer != Mixer::none; }
  bool feeds() const { return feed != FeedForward::none; }
  /// Index below kLayerKinds.
  std::size_t index() const { return static_cast<std::size_t>(feed) * kMixers + static_cast<std::size_t>(mixer); }
  /// The kind with this index.
  static LayerKind at(std::size_t index) {
    return {static_cast<Mixer>(index % kMixers), static_cast<FeedForward>(index / kMixers)};
  }
  auto operator<=>(const LayerKind&) const = default;
};

}  // namespace tandem
