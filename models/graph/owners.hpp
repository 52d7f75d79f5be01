#pragma once
// ZeRO 1 under Muon: each rank of a sharding group updates whole parameters, because Muon needs whole matrices.

#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// A parameter, or one of the matrices stacked in it, that one rank of its sharding group updates.
struct OwnedPart {
  std::int32_t param = 0, unit = 0;      ///< indices among the stage's parameters and units
  std::int64_t first = 0, count = 0;     ///< elements of the local parameter
  std::int32_t owner = 0;                ///< position in the sharding group of the unit
  std::int64_t state = 0;                ///< its first element in the owner's states
  std::int64_t second = 0;               ///< in its second moments, which Muon's parameters lack
};

/// Who updates what on a stage. States of experts follow all others; a rank has a place in both sharding groups.
struct Ownership {
  std::vector<OwnedPart> parts;          ///< ascending offset; empty: ranks own no whole parameters
  std::int64_t states = 0, seconds = 0;  ///< elements that suffice for every rank's states, and for its second moments
};

/// Deals the parameters out by size, to the ranks in turn and back again, as Megatron-LM's layer-wise distributed optimizer does
/// (megatron/core/optimizer/layer_wise_optimizer.py, shard_params, until May 2026). Experts are dealt out one by one where that cuts no 64 elements
/// which gradient norms sum at once. Stages without matrices of Muon's, and stages without shards, have no owners.
Ownership ownership(std::span<const Param> params, std::span<const ShardUnit> units);

/// The matrices of a parameter that lie in `count` of its elements.
constexpr std::int64_t stacked_in(const MatrixParts& m, std::int64_t count) {
  return m.any() ? count / (m.periods * m.period() * m.cols) : 0;
}

}  // namespace tandem
