#pragma once
// Times the algorithms of a matrix product, on memory of its own.

#include <cstddef>
#include <optional>

#include "exec/cuda/cublaslt.hpp"
#include "exec/device/product_choices.hpp"

namespace tandem::exec::cuda {

struct Workspace {
  std::byte* data;
  std::size_t bytes;
};

/// Times the algorithms that cuBLASLt's heuristic names, makes `gemm` use the fastest, and returns its seconds. nullopt, without a
/// change, if there is no memory for operands. Only one thread of the process measures at a time.
std::optional<double> use_fastest(Gemm& gemm, const device::ProductKey& key, const Workspace& workspace, cudaStream_t stream);

/// Performs a product once, so that the library loads its kernel now. Waits for it. Does nothing if there is no memory for operands.
/// Inside a step the load would wait for the device, whose collective may wait for this rank (openxla/xla, issue 38932).
void load_kernel(Gemm& gemm, const device::GemmShape& shape, const Workspace& workspace, cudaStream_t stream);

}  // namespace tandem::exec::cuda
