#pragma once
// What layers of one stack differ in: how positions are mixed, and what follows.

#include <cstddef>
#include <cstdint>

namespace tandem {

/// Attention to all keys, attention to a window of them.
enum class Mixer : std::uint8_t { full, windowed };
enum class FeedForward : std::uint8_t { mlp, experts };

inline constexpr std::size_t kMixers = 2, kFeedForwards = 2;
inline constexpr std::size_t kLayerKinds = kMixers * kFeedForwards;

struct LayerKind {
  Mixer mixer = Mixer::full;
  FeedForward feed = FeedForward::mlp;

  bool has_experts() const { return feed == FeedForward::experts; }
  /// Below kLayerKinds.
  std::size_t index() const { return static_cast<std::size_t>(feed) * kMixers + static_cast<std::size_t>(mixer); }
  /// The kind with this index.
  static LayerKind at(std::size_t index) {
    return {static_cast<Mixer>(index % kMixers), static_cast<FeedForward>(index / kMixers)};
  }
  auto operator<=>(const LayerKind&) const = default;
};

}  // namespace tandem
