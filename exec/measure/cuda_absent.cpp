// Replaces exec/cuda/measure in builds without the CUDA toolkit.
#include "exec/measure/measure_cuda.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {

bool measures_cuda() { return false; }

CostTable measure_cuda(const CudaMeasureOptions&) {
  throw InfeasibleError(Problem{"", "--device", "cuda", "this build has no CUDA",
                                "configure where the CUDA toolkit is, with -DTANDEM_CUDA=ON, or use --device cpu"});
}

}  // namespace tandem::exec
