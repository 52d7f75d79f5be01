// Instantiates the kernels of layers with a recurrence, and of gates.
#include "exec/cuda/launch.cuh"
#include "exec/device/recurrence/gated_norm.hpp"
#include "exec/device/recurrence/scan_gradients.hpp"
#include "exec/device/recurrence/short_conv.hpp"

TANDEM_LAUNCH(ScanKeysKernel);
TANDEM_LAUNCH(ScanGatesKernel);
TANDEM_LAUNCH(ScanFactorsKernel);
TANDEM_LAUNCH(ScanStatesKernel);
TANDEM_LAUNCH(ScanOutputKernel);
TANDEM_LAUNCH(ScanStateGradKernel);
TANDEM_LAUNCH(ScanPairsKernel);
TANDEM_LAUNCH(ScanHeadGradKernel);
TANDEM_LAUNCH(ScanKeyGradKernel);
TANDEM_LAUNCH(ScanVectorsKernel);
TANDEM_LAUNCH(ShortConvKernel);
TANDEM_LAUNCH(ShortConvInputGradKernel);
TANDEM_LAUNCH(ShortConvWeightGradKernel);
TANDEM_LAUNCH(GatedNormKernel);
TANDEM_LAUNCH(GatedNormGradKernel);
TANDEM_LAUNCH(GatedNormWeightGradKernel);
TANDEM_LAUNCH(SigmoidGateKernel);
