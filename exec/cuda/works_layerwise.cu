// Instantiates the kernels of LAMB and LANS.
#include "exec/cuda/launch.cuh"
#include "exec/device/layerwise.hpp"

TANDEM_LAUNCH(TensorNormsKernel);
TANDEM_LAUNCH(CarrySumsKernel);
TANDEM_LAUNCH(LayerwiseMomentsKernel);
TANDEM_LAUNCH(LayerwiseApplyKernel);
