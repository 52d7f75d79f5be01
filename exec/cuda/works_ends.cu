// Kernels of embeddings and the loss, and of what moves elements.
#include "exec/cuda/launch.cuh"
#include "exec/device/embedding.hpp"
#include "exec/device/fold.hpp"
#include "exec/device/loss.hpp"
#include "exec/device/moves.hpp"

TANDEM_LAUNCH(EmbeddingKernel);
TANDEM_LAUNCH(EmbeddingGradKernel);
TANDEM_LAUNCH(VocabMaxKernel);
TANDEM_LAUNCH(VocabSumsKernel);
TANDEM_LAUNCH(LossKernel);
TANDEM_LAUNCH(LossSumKernel);
TANDEM_LAUNCH(CopyKernel);
TANDEM_LAUNCH(RotaryKernel);
TANDEM_LAUNCH(FoldKernel);
