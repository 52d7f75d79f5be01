// Instantiates the attention kernels.
#include "exec/cuda/launch.cuh"
#include "exec/device/flash.hpp"
#include "exec/device/latent.hpp"
#include "exec/device/ring.hpp"
#include "exec/device/row_order.hpp"
#include "exec/device/softmax.hpp"

TANDEM_LAUNCH(RowOrderKernel);
TANDEM_LAUNCH(BucketsKernel);
TANDEM_LAUNCH(SoftmaxKernel);
TANDEM_LAUNCH(BucketGradKernel);
TANDEM_LAUNCH(SoftmaxGradKernel);
TANDEM_LAUNCH(FlashKernel);
TANDEM_LAUNCH(FlashQueryGradKernel);
TANDEM_LAUNCH(FlashKeyGradKernel);
TANDEM_LAUNCH(SinkGradKernel);
TANDEM_LAUNCH(RingMergeKernel);
TANDEM_LAUNCH(RingAddKernel);
TANDEM_LAUNCH(LatentHeadsKernel);
TANDEM_LAUNCH(LatentHeadsGradKernel);
