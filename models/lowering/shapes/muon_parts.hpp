#pragma once
// Which parameters Muon updates, and the matrices that it makes orthogonal in each.

#include "models/lowering/shapes/stage_units.hpp"

namespace tandem::lowering {

/// Whether Muon updates a parameter: a matrix of a block, of experts or of an MTP module. As in Megatron-LM (megatron/core/optimizer/
/// muon.py) that includes routers and indexers, but no embedding, output matrix, norm or bias, nor a convolution's weights, which PyTorch
/// stores with three dimensions.
bool updated_by_muon(const RegionPlace& region, const ParamSpec& spec);

/// The matrices in parameter `p`, a part of `spec` or all of it; `s` are the sizes of its layer. Queries, keys and values are matrices of
/// their own, gate and up of an MLP are one (as in Megatron-LM). So are keys and values of cross-attention, and those of latent
/// attention's up-projection. Each expert has its own. A rank's share counts as a matrix.
MatrixParts muon_parts(const Shapes& s, const ParamSpec& spec, const Param& p);

}  // namespace tandem::lowering
