// Instantiates the kernels of embeddings, loss and optimizer updates, and those that move elements.
#include "exec/cuda/launch.cuh"
#include "exec/device/embedding.hpp"
#include "exec/device/fold.hpp"
#include "exec/device/loss.hpp"
#include "exec/device/moves.hpp"
#include "exec/device/norm_sum.hpp"
#include "exec/device/update.hpp"

TANDEM_LAUNCH(EmbeddingKernel);
TANDEM_LAUNCH(FirstTokenKernel);
TANDEM_LAUNCH(EmbeddingGradKernel);
TANDEM_LAUNCH(VocabMaxKernel);
TANDEM_LAUNCH(VocabSumsKernel);
TANDEM_LAUNCH(LossKernel);
TANDEM_LAUNCH(LossSumKernel);
TANDEM_LAUNCH(CopyKernel);
TANDEM_LAUNCH(DequantizeKernel);
TANDEM_LAUNCH(CommonColumnsKernel);
TANDEM_LAUNCH(CommonColumnsGradKernel);
TANDEM_LAUNCH(RotaryKernel);
TANDEM_LAUNCH(FoldKernel);
TANDEM_LAUNCH(NormSumKernel);
TANDEM_LAUNCH(CarryKernel);
TANDEM_LAUNCH(ClipKernel);
TANDEM_LAUNCH(AdamWKernel);
TANDEM_LAUNCH(SgdKernel);
