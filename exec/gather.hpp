#pragma once
// Whole tensors out of the ranks' shares.

#include <span>
#include <string_view>
#include <vector>

#include "exec/run.hpp"

namespace tandem::exec {

/// One stage's arenas by tensor rank, of one data rank.
struct StageArenas {
  const Program* program;
  std::vector<const std::byte*> by_tensor_rank;
};

/// Every parameter's part of the flat buffer `allocation` ("weights", "gradients") as whole tensors in ascending global
/// index. Tied copies (not in the norm) are left out: their value is the first copy's. Nobody may be writing.
std::vector<GatheredTensor> gather(std::span<const StageArenas> stages, std::string_view allocation, DType dtype);

}  // namespace tandem::exec
