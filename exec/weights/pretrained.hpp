#pragma once
// The weights that a training begins with, from the files of a model in Hugging Face's format.

#include <memory>
#include <vector>

#include "exec/state/saved_state.hpp"
#include "exec/weights/weight_files.hpp"
#include "models/huggingface/tensor_rows.hpp"

namespace tandem::exec {

/// The parameters of all ranks as whole ones, in ascending global index. Tied copies and adapters are left out.
std::vector<huggingface::WholeParameter> whole_parameters(std::span<const RankState> ranks, const Plan& plan);

/// The adapters of all ranks as whole parameters, in ascending global index.
std::vector<huggingface::WholeParameter> whole_adapters(std::span<const RankState> ranks, const Plan& plan);

/// The files as the weights of `parameters`: one tensor of the buffer "weights" each, in the type that its tensors are stored in.
/// Only heads and FP8 scales are read before the state is; a tied output matrix is compared with the word matrix. Throws ConfigError
/// that lists tensors that are missing, unexpected, or of another shape or type.
std::unique_ptr<SavedState> open_pretrained(WeightFiles files, const huggingface::WeightTable& table,
                                            std::vector<huggingface::ParameterRows> parameters);

}  // namespace tandem::exec
