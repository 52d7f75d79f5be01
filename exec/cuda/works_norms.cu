// Kernels of norms, and sums of rows and columns.
#include "exec/cuda/launch.cuh"
#include "exec/device/head_norm.hpp"
#include "exec/device/norm_gradients.hpp"

TANDEM_LAUNCH(NormKernel);
TANDEM_LAUNCH(NormInputGradKernel);
TANDEM_LAUNCH(NormGradKernel);
TANDEM_LAUNCH(ColumnSumsKernel);
TANDEM_LAUNCH(ColumnFoldKernel);
TANDEM_LAUNCH(RowReduceKernel);
TANDEM_LAUNCH(HeadNormKernel);
TANDEM_LAUNCH(HeadNormGradKernel);
