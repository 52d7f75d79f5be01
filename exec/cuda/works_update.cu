// Kernels from gradients to new weights.
#include "exec/cuda/launch.cuh"
#include "exec/device/update.hpp"

TANDEM_LAUNCH(NormSumKernel);
TANDEM_LAUNCH(CarryKernel);
TANDEM_LAUNCH(ClipKernel);
TANDEM_LAUNCH(AdamWKernel);
TANDEM_LAUNCH(SgdKernel);
