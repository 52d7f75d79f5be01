#pragma once
// Assembles whole tensors from the ranks' shares.

#include <span>
#include <string_view>
#include <vector>

#include "exec/state/gathered_tensor.hpp"
#include "exec/state/param_layout.hpp"

namespace tandem::exec {

/// Gathers the buffer `allocation` ("weights", "gradients" or an optimizer's) as whole tensors
/// in ascending global index. Each element comes from the rank that updates it; if several do,
/// from the one that counts in the norm. `ranks`: all ranks of the world. Elements that no rank
/// holds are NaN. Tied copies are left out: they equal the first copy. No rank may be writing.
std::vector<GatheredTensor> gather(std::span<const RankState> ranks, std::string_view allocation, DType dtype);

}  // namespace tandem::exec
