#pragma once
// Which kinds of layers a model has, and how many of each lie in a row of them.

#include <array>
#include <cstdint>
#include <vector>

#include "models/lowering/shapes/shapes.hpp"

namespace tandem::sim {

/// By LayerKind::index().
using KindCounts = std::array<std::int64_t, kLayerKinds>;

class LayerKinds {
 public:
  explicit LayerKinds(const lowering::Shapes& shapes);

  /// Of the layers from the global layer `first` on, so many.
  KindCounts among(std::int64_t first, std::int64_t layers) const;
  bool has(std::size_t kind) const { return has_[kind]; }

 private:
  std::array<bool, kLayerKinds> has_{};
  std::size_t first_ = 0;           ///< kind of layer 0
  std::vector<KindCounts> before_;  ///< by layer, and of all of them; empty where all layers are alike
};

}  // namespace tandem::sim
