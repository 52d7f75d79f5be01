// Instantiates the kernels of mixture-of-experts layers.
#include "exec/cuda/launch.cuh"
#include "exec/device/experts.hpp"
#include "exec/device/router.hpp"

TANDEM_LAUNCH(RouterKernel);
TANDEM_LAUNCH(ChoiceCountsKernel);
TANDEM_LAUNCH(SlotsKernel);
TANDEM_LAUNCH(RouterGradKernel);
TANDEM_LAUNCH(ScaleGradKernel);
TANDEM_LAUNCH(BalanceGradKernel);
TANDEM_LAUNCH(ExpertSlotsKernel);
TANDEM_LAUNCH(DispatchKernel);
TANDEM_LAUNCH(CombineKernel);
TANDEM_LAUNCH(CombineGradKernel);
TANDEM_LAUNCH(JoinRowsKernel);
TANDEM_LAUNCH(ExpertBiasKernel);
TANDEM_LAUNCH(ExpertBiasGradKernel);
