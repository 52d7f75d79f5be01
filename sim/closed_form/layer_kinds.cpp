#include "sim/closed_form/layer_kinds.hpp"

#include <algorithm>

#include "models/lowering/stage/templates.hpp"

namespace tandem::sim {

std::size_t LayerKinds::of(const lowering::Shapes& shapes, std::int64_t layer) {
  const auto l = static_cast<std::size_t>(layer);
  return lowering::BlockKind{shapes.moe_layer[l], shapes.window_layer[l]}.index();
}

LayerKinds::LayerKinds(const lowering::Shapes& shapes) {
  const auto layers = static_cast<std::int64_t>(shapes.moe_layer.size());
  for (std::int64_t l = 0; l < layers; ++l) has_[of(shapes, l)] = true;
  if (layers > 0) first_ = of(shapes, 0);
  if (std::count(has_.begin(), has_.end(), true) < 2) return;
  before_.reserve(static_cast<std::size_t>(layers + 1));
  before_.emplace_back();
  for (std::int64_t l = 0; l < layers; ++l) {
    KindCounts sum = before_.back();
    ++sum[of(shapes, l)];
    before_.push_back(sum);
  }
}

KindCounts LayerKinds::among(std::int64_t first, std::int64_t layers) const {
  KindCounts out{};
  if (before_.empty()) return out[first_] = layers, out;
  const KindCounts& before = before_[static_cast<std::size_t>(first)];
  out = before_[static_cast<std::size_t>(first + layers)];
  for (std::size_t k = 0; k < kBlockKinds; ++k) out[k] -= before[k];
  return out;
}

}  // namespace tandem::sim
