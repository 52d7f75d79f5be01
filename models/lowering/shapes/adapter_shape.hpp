#pragma once
// The low-rank adapters that layers of one kind have.

#include <bitset>
#include <cstdint>
#include <string_view>

#include "models/plan/adapters.hpp"

namespace tandem::lowering {

/// Low-rank adapters beside frozen matrices. rank 0: none, everything is trained.
struct AdapterShape {
  std::int64_t rank = 0;
  double scale = 1;             ///< factor of what an adapter adds
  bool scales_output = false;   ///< the factor multiplies the output of B, not its input
  double dropout = 0;           ///< share of an adapter's inputs that is set to 0
  std::bitset<kAdapterTargets.size()> targets;  ///< which of kAdapterTargets have one
  bool quantizes = false;       ///< the frozen matrices of linear layers are stored in `base`
  DType base = DType::nf4;

  bool here() const { return rank > 0; }
  /// Whether this target has an adapter. A shared expert is an MLP.
  bool has(std::string_view target) const;
  /// Whether a matrix has an adapter, or a part of it.
  bool on(std::string_view matrix) const;
  bool on_experts() const { return on("experts.fc1") || on("experts.fc2"); }
  /// The same without a target.
  AdapterShape without(std::string_view target) const;
};

/// The plan's adapters, whose factor multiplies the output of B if `scales_output`.
AdapterShape adapter_shape(const AdapterSpec& spec, bool scales_output);

}  // namespace tandem::lowering
