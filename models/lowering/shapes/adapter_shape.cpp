#include "models/lowering/shapes/adapter_shape.hpp"

#include "models/plan/adapter_parts.hpp"

namespace tandem::lowering {
namespace {

/// kAdapterTargets.size(): it is none of them.
std::size_t index_of(std::string_view target) {
  return static_cast<std::size_t>(std::find(kAdapterTargets.begin(), kAdapterTargets.end(), target) - kAdapterTargets.begin());
}

}  // namespace

bool AdapterShape::has(std::string_view target) const {
  const std::size_t i = index_of(of_mlp(target));
  return i < targets.size() && targets[i];
}

bool AdapterShape::on(std::string_view matrix) const {
  const auto part = [&](const AdapterPart& p) { return p.matrix == of_mlp(matrix) && has(p.target); };
  return has(matrix) || std::any_of(kAdapterParts.begin(), kAdapterParts.end(), part);
}

AdapterShape AdapterShape::without(std::string_view target) const {
  AdapterShape less = *this;
  less.targets.reset(index_of(target));
  return less;
}

AdapterShape adapter_shape(const AdapterSpec& spec, bool scales_output) {
  AdapterShape s{spec.rank, spec.scale(), scales_output, spec.dropout, {}, spec.quantizes(), spec.base_type()};
  for (const std::string& target : spec.targets) s.targets.set(index_of(target));
  return s;
}

}  // namespace tandem::lowering
