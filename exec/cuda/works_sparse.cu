// Instantiates the kernels of sparse attention, to keys that an indexer chose.
#include "exec/cuda/launch.cuh"
#include "exec/device/sparse.hpp"

TANDEM_LAUNCH(ChosenAttentionKernel);
TANDEM_LAUNCH(ChosenQueryGradKernel);
TANDEM_LAUNCH(ChosenKeyGradKernel);
TANDEM_LAUNCH(IndexTargetKernel);
TANDEM_LAUNCH(ChooseKeysKernel);
TANDEM_LAUNCH(IndexQueryGradKernel);
TANDEM_LAUNCH(IndexKeyGradKernel);
