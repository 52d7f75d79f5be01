// Instantiates the kernels of layers, except attention.
#include "exec/cuda/launch.cuh"
#include "exec/device/pointwise.hpp"
#include "exec/device/residual.hpp"

TANDEM_LAUNCH(PointwiseKernel);
TANDEM_LAUNCH(GatedKernel);
TANDEM_LAUNCH(GatedBackwardKernel);
TANDEM_LAUNCH(ElementwiseKernel);
TANDEM_LAUNCH(AddKernel);
TANDEM_LAUNCH(BiasKernel);
TANDEM_LAUNCH(DropoutKernel);
TANDEM_LAUNCH(PositionKernel);
TANDEM_LAUNCH(PositionGradKernel);
