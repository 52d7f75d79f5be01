#pragma once
// Which kinds of layers a model has, and how many of each a range of layers has.

#include <array>
#include <cstdint>
#include <vector>

#include "models/lowering/shapes/shapes.hpp"

namespace tandem::sim {

/// Number of layers, by LayerKind::index().
using KindCounts = std::array<std::int64_t, kLayerKinds>;

class LayerKinds {
 public:
  explicit LayerKinds(const lowering::Shapes& shapes);

  /// Counts each kind among `layers` layers from the global layer `first` on.
  KindCounts among(std::int64_t first, std::int64_t layers) const;
  bool has(std::size_t kind) const { return has_[kind]; }

 private:
  std::array<bool, kLayerKinds> has_{};
  std::size_t first_ = 0;           ///< kind of layer 0
  std::vector<KindCounts> before_;  ///< by layer: counts before it, then the total; empty if all layers are alike
};

}  // namespace tandem::sim
