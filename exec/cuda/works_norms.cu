// Instantiates the kernels of norms and of row and column sums.
#include "exec/cuda/launch.cuh"
#include "exec/device/caps_gates.hpp"
#include "exec/device/head_norm.hpp"
#include "exec/device/norm_gradients.hpp"
#include "exec/device/row_norm.hpp"

TANDEM_LAUNCH(NormKernel);
TANDEM_LAUNCH(NormInputGradKernel);
TANDEM_LAUNCH(NormGradKernel);
TANDEM_LAUNCH(ColumnSumsKernel);
TANDEM_LAUNCH(ColumnFoldKernel);
TANDEM_LAUNCH(RowReduceKernel);
TANDEM_LAUNCH(HeadNormKernel);
TANDEM_LAUNCH(HeadNormGradKernel);
TANDEM_LAUNCH(LongHeadNormKernel);
TANDEM_LAUNCH(LongHeadNormGradKernel);
TANDEM_LAUNCH(RowSumsKernel);
TANDEM_LAUNCH(RowNormKernel);
TANDEM_LAUNCH(RowNormWeightsKernel);
TANDEM_LAUNCH(RowNormGradKernel);
TANDEM_LAUNCH(SoftCapKernel);
TANDEM_LAUNCH(RowGateKernel);
TANDEM_LAUNCH(RowGateGradKernel);
