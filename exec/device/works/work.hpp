#pragma once
// The works of an operation on a device: kernels, products and clearings, in order.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/device/attention_calls.hpp"
#include "exec/device/caps_gates.hpp"
#include "exec/device/embedding.hpp"
#include "exec/device/experts.hpp"
#include "exec/device/flash.hpp"
#include "exec/device/fold.hpp"
#include "exec/device/head_norm.hpp"
#include "exec/device/latent.hpp"
#include "exec/device/layerwise.hpp"
#include "exec/device/loss.hpp"
#include "exec/device/moves.hpp"
#include "exec/device/muon.hpp"
#include "exec/device/norm_gradients.hpp"
#include "exec/device/norm_sum.hpp"
#include "exec/device/pointwise.hpp"
#include "exec/device/product.hpp"
#include "exec/device/recurrence/gated_norm.hpp"
#include "exec/device/recurrence/scan_gradients.hpp"
#include "exec/device/recurrence/short_conv.hpp"
#include "exec/device/residual.hpp"
#include "exec/device/router.hpp"
#include "exec/device/row_norm.hpp"
#include "exec/device/row_order.hpp"
#include "exec/device/sparse.hpp"
#include "exec/device/update.hpp"

namespace tandem::exec::device {

using Work = std::variant<PointwiseKernel, GatedKernel, GatedBackwardKernel, ElementwiseKernel, AddKernel, BiasKernel,
                          DropoutKernel, PositionKernel, PositionGradKernel, NormKernel, NormInputGradKernel,
                          NormGradKernel, ColumnSumsKernel, ColumnFoldKernel, RowReduceKernel, EmbeddingKernel, FirstTokenKernel,
                          EmbeddingGradKernel, VocabMaxKernel, VocabSumsKernel, LossKernel, LossSumKernel, CopyKernel,
                          DequantizeKernel, CommonColumnsKernel, CommonColumnsGradKernel,
                          HeadNormKernel, LongHeadNormKernel, HeadNormGradKernel, LongHeadNormGradKernel, RowSumsKernel,
                          RowNormKernel, RowNormWeightsKernel,
                          RowNormGradKernel, SoftCapKernel, RowGateKernel, RowGateGradKernel,
                          LatentHeadsKernel, LatentHeadsGradKernel, RotaryKernel, RowOrderKernel, BucketsKernel,
                          SoftmaxKernel, BucketGradKernel,
                          SoftmaxGradKernel, FlashKernel, FlashGradKernels, SinkGradKernel, NormSumKernel,
                          CarryKernel, ClipKernel, AdamWKernel, SgdKernel, MuonMomentumKernel, MuonSquaresKernel, MuonNormKernel,
                          MuonScaleKernel, MuonApplyKernel,
                          TensorNormsKernel, CarrySumsKernel, LayerwiseMomentsKernel, LayerwiseApplyKernel, RouterKernel,
                          ChoiceCountsKernel, SlotsKernel, RouterGradKernel, ScaleGradKernel, BalanceGradKernel, ExpertSlotsKernel,
                          DispatchKernel, CombineKernel, CombineGradKernel, JoinRowsKernel, ExpertBiasKernel, ExpertBiasGradKernel,
                          ChosenAttentionKernel, ChosenQueryGradKernel, ChosenKeyGradKernel, IndexTargetKernel,
                          ChooseKeysKernel, IndexQueryGradKernel, IndexKeyGradKernel, ScanKeysKernel, ScanGatesKernel,
                          ScanFactorsKernel, ScanStatesKernel, ScanOutputKernel, ScanStateGradKernel, ScanPairsKernel,
                          ScanHeadGradKernel, ScanKeyGradKernel, ScanVectorsKernel, ShortConvKernel, ShortConvInputGradKernel,
                          ShortConvWeightGradKernel, GatedNormKernel, GatedNormGradKernel, GatedNormWeightGradKernel,
                          SigmoidGateKernel, Product, Clearing>;

/// Shared by all operations of a rank.
struct WorkContext {
  Pieces pieces;
  Fault* fault = nullptr;
  std::byte* scratch = nullptr;  ///< scratch memory of scratch_bytes bytes
};

/// Whether `works_of` supports the operation. `most_shared`: shared memory per block, in bytes.
Answer can(const Op& op, const OperandTypes& types, std::size_t most_shared);

/// True if products with operands in memory are among an operation's works, so that it needs planning.
bool has_products(const Op& op);

/// Scratch bytes of an operation. With counted rows but no Launch::rows: for equally many rows per expert.
std::int64_t scratch_bytes(const Launch& launch);

/// With counted rows: rows that the operands have memory for.
std::int64_t most_rows(const Launch& launch);
/// With counted rows: scratch bytes that no number of rows exceeds.
std::int64_t most_scratch_bytes(const Launch& launch);
/// The operation with counted rows for one expert with `rows` rows of one rank.
Op of_one_expert(const Op& op, std::int64_t rows);

/// The works in order of execution. Counted rows need Launch::rows.
/// Throws DeviceError for an operation that can() refuses.
std::vector<Work> works_of(const Launch& launch, const WorkContext& around);

/// FLOPs of a work's products. For flash attention: of its visible pairs, as if documents were joined.
std::int64_t product_flops(const Work& work);

}  // namespace tandem::exec::device
