#pragma once
// The matrices that Muon makes orthogonal in a stage's parameters.

#include <span>
#include <vector>

#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// By shape, each at its first place.
std::vector<MuonMatrices> muon_matrices(std::span<const Param> params);

}  // namespace tandem::lowering
