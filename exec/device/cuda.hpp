#pragma once
// Ranks on a CUDA device. Built from exec/cuda where the toolkit is, else from its twin cuda_absent.cpp that refuses.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/communicator/communicator.hpp"
#include "exec/device/product_choices.hpp"

namespace tandem::exec {

/// Throws DeviceError where no CUDA device is, InfeasibleError in a build without CUDA.
void require_cuda_device();

/// The device that ranks share.
struct CudaCard {
  std::string name, products;  ///< "NVIDIA H100 80GB HBM3"; the library of products and its version
  std::int64_t multiprocessors = 0, memory_bytes = 0;
};
/// Throws as require_cuda_device, and DeviceError where the library of products is missing.
CudaCard cuda_card();

struct CudaOptions {
  bool deterministic = true;  ///< only kernels that give the same bits again; false: also faster ones that do not
  /// Algorithms of products, timed before the first step; null: those that cuBLASLt's heuristic names first, so that no timing decides
  /// how sums are ordered.
  std::shared_ptr<device::ProductChoices> choices;
};

/// One rank on the first device that CUDA_VISIBLE_DEVICES leaves. Throws as require_cuda_device.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options = {});

/// Communicators of ranks that are threads of this process and share that device: it copies and folds where their buffers lie.
std::vector<std::unique_ptr<Communicator>> make_cuda_communicators(int world);

}  // namespace tandem::exec
