#pragma once
// Ranks on a CUDA device. Builds without the CUDA toolkit use cuda_absent.cpp, which refuses.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/communicator/communicator.hpp"
#include "exec/communicator/staging_area.hpp"
#include "exec/device/product_choices.hpp"

namespace tandem::exec {

/// Throws DeviceError if there is no CUDA device, InfeasibleError in a build without CUDA.
void require_cuda_device();

/// The device that the ranks share.
struct CudaCard {
  std::string name, products;  ///< e.g. "NVIDIA H100 80GB HBM3"; name and version of the matrix-product library
  std::int64_t multiprocessors = 0, memory_bytes = 0;
};
/// Throws like require_cuda_device, and DeviceError if the matrix-product library is missing.
CudaCard cuda_card();

struct CudaOptions {
  bool deterministic = true;  ///< only kernels that are reproducible bit for bit; false: also faster ones
  /// Matrix-product algorithms chosen by timing before the first step. null: cuBLASLt's first heuristic choice, so that no timing
  /// affects the order of sums.
  std::shared_ptr<device::ProductChoices> choices;
};

/// A backend on the first device that CUDA_VISIBLE_DEVICES allows. Throws like require_cuda_device.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options = {});

/// Communicators of ranks that are threads of this process and share that device. It copies and reduces in device memory.
std::vector<std::unique_ptr<Communicator>> make_cuda_communicators(int world);

/// Staging in pinned host memory. Throws like require_cuda_device.
StagingArea& cuda_staging_area();

/// The devices that CUDA_VISIBLE_DEVICES allows, by its names; else all devices of this host. It does not call CUDA, whose
/// first call fixes the variable's value for the process.
std::vector<std::string> visible_cuda_devices();

}  // namespace tandem::exec
