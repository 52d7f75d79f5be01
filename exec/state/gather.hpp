#pragma once
// Whole tensors out of the ranks' shares.

#include <span>
#include <string_view>
#include <vector>

#include "exec/state/gathered_tensor.hpp"
#include "exec/state/param_layout.hpp"

namespace tandem::exec {

/// Every parameter's part of the buffer `allocation` ("weights", "gradients", or an optimizer's) as whole tensors in
/// ascending global index, each element from the rank that updates it; of several ranks that do, from the one that norms
/// count. `ranks`: the whole world. What nobody holds is NaN. Tied copies (not in the norm) are left out: their value is
/// the first copy's. Nobody may be writing.
std::vector<GatheredTensor> gather(std::span<const RankState> ranks, std::string_view allocation, DType dtype);

}  // namespace tandem::exec
