#pragma once
// Ranks on a CUDA device. Built from exec/cuda where the toolkit is, else from its twin cuda_absent.cpp that refuses.

#include <memory>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/communicator/communicator.hpp"

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

}  // namespace tandem::exec
