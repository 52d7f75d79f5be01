// Replaces exec/cuda/backend.cpp in builds without the CUDA toolkit.
#include "exec/device/cuda.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

[[noreturn]] void refuse() {
  throw InfeasibleError(Problem{"", "--backend", "cuda", "this build has no CUDA",
                                "configure where the CUDA toolkit is, with -DTANDEM_CUDA=ON, or use --backend cpu"});
}

}  // namespace

void require_cuda_device() { refuse(); }

CudaCard cuda_card() { refuse(); }

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions&) { refuse(); }

std::vector<std::unique_ptr<Communicator>> make_cuda_communicators(int) { refuse(); }

StagingArea& cuda_staging_area() { refuse(); }

std::vector<std::string> visible_cuda_devices() { refuse(); }

}  // namespace tandem::exec
