#pragma once
// Times the algorithms of a product on memory of its own.

#include <cstddef>
#include <optional>

#include "exec/cuda/cublaslt.hpp"
#include "exec/device/product_choices.hpp"

namespace tandem::exec::cuda {

struct Workspace {
  std::byte* data;
  std::size_t bytes;
};

/// Makes `gemm` use the fastest of the algorithms that the heuristic names, and returns the seconds of one product. nullopt, and the
/// first one stays, where there is no memory for operands. One thread of the process at a time times.
std::optional<double> use_fastest(Gemm& gemm, const device::ProductKey& key, const Workspace& workspace, cudaStream_t stream);

}  // namespace tandem::exec::cuda
