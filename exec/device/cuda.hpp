#pragma once
// Ranks on a CUDA device. Built from exec/cuda where the toolkit is, else from its twin cuda_absent.cpp that refuses.

#include <memory>
#include <string>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/communicator/communicator.hpp"
#include "exec/communicator/staging_area.hpp"

namespace tandem::exec {

/// Throws DeviceError where no CUDA device is, InfeasibleError in a build without CUDA.
void require_cuda_device();

struct CudaOptions {
  bool deterministic = true;  ///< only kernels that give the same bits again; false: also faster ones that do not
};

/// One rank on the first device that CUDA_VISIBLE_DEVICES leaves. Throws as require_cuda_device.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options = {});

/// Communicators of ranks that are threads of this process and share that device: it copies and folds where their buffers lie.
std::vector<std::unique_ptr<Communicator>> make_cuda_communicators(int world);

/// Pinned memory of the host. Throws as require_cuda_device.
StagingArea& cuda_staging_area();

/// Devices that CUDA_VISIBLE_DEVICES leaves, as it names them, or all of this host. CUDA itself is not asked: it would then stay with
/// what the variable said.
std::vector<std::string> visible_cuda_devices();

}  // namespace tandem::exec
