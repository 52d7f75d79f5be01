// Instantiates the kernels of Muon.
#include "exec/cuda/launch.cuh"
#include "exec/device/muon.hpp"

TANDEM_LAUNCH(MuonMomentumKernel);
TANDEM_LAUNCH(MuonSquaresKernel);
TANDEM_LAUNCH(MuonNormKernel);
TANDEM_LAUNCH(MuonScaleKernel);
TANDEM_LAUNCH(MuonApplyKernel);
