#include "sim/closed_form/layer_kinds.hpp"

#include <algorithm>

namespace tandem::sim {

LayerKinds::LayerKinds(const lowering::Shapes& shapes) {
  const std::vector<LayerKind>& kinds = shapes.kinds;
  for (const LayerKind k : kinds) has_[k.index()] = true;
  if (!kinds.empty()) first_ = kinds.front().index();
  if (std::count(has_.begin(), has_.end(), true) < 2) return;
  before_.reserve(kinds.size() + 1);
  before_.emplace_back();
  for (const LayerKind k : kinds) {
    KindCounts sum = before_.back();
    ++sum[k.index()];
    before_.push_back(sum);
  }
}

KindCounts LayerKinds::among(std::int64_t first, std::int64_t layers) const {
  KindCounts out{};
  if (before_.empty()) return out[first_] = layers, out;
  const KindCounts& before = before_[static_cast<std::size_t>(first)];
  out = before_[static_cast<std::size_t>(first + layers)];
  for (std::size_t k = 0; k < kLayerKinds; ++k) out[k] -= before[k];
  return out;
}

}  // namespace tandem::sim
