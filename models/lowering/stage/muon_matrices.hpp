#pragma once
// The matrices that Muon makes orthogonal in a stage's parameters.

#include <span>
#include <vector>

#include "models/graph/owners.hpp"
#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// By shape, each at its first place. If ranks own whole parameters: all shapes that any rank has, with the numbers of the rank whose
/// matrices take most FLOPs. A rank has a place among the owners of experts and one among those of all else; the most of each count.
std::vector<MuonMatrices> muon_matrices(std::span<const Param> params, const Ownership& owners);

std::int64_t elements_of(std::span<const MuonMatrices> matrices);

}  // namespace tandem::lowering
