#pragma once
// Mixture of experts: the router, where rows go, products with one matrix for each expert. Conventions: models/ops/op.hpp.

#include <cstdint>

#include "models/base/dtype.hpp"
#include "models/plan/routing.hpp"

namespace tandem {

/// Sizes of one layer of experts on one rank. capacity: rows an expert takes from the tokens of one rank, 0: dropless.
struct MoeDims {
  std::int64_t tokens, hidden, experts, top_k, capacity;
  /// Rows handed to experts: a fixed number for each, or one for every choice of every token.
  std::int64_t rows() const { return capacity > 0 ? experts * capacity : tokens * top_k; }
};
/// From logits to the choice of experts and their weights. The choice is by keys: scores and, with `bias`, a number of each expert.
struct RouterRule {
  RouterScores scores = RouterScores::softmax;
  bool normalize = true;                ///< chosen scores are divided by their sum when top_k > 1
  double scale = 1;                     ///< of weights, behind that
  std::int64_t groups = 0, kept_groups = 0;  ///< experts of the kept_groups best of `groups` equal groups are chosen; 0: there are none
  GroupScore group_score = GroupScore::max;  ///< of keys
  bool bias = false;
  bool expert_scale = false;            ///< weights are multiplied by a learned number of each expert, behind all else
  constexpr bool grouped() const { return kept_groups < groups; }
  /// Whether keys are the scores themselves.
  constexpr bool plain() const { return !bias && !grouped(); }
};
/// Added to the sum that sigmoids are divided by, which may be 0 in fp32 (huggingface/transformers: models/deepseek_v3,
/// route_tokens_to_experts).
inline constexpr double kSmallestSum = 1e-20;

/// Scores of the experts, then the top_k with the largest keys (the lower index wins a tie); weights are their scores, normalised and
/// scaled. With a capacity, choices beyond it (in ascending token, then choice) are dropped: slot -1.
/// slots: the row of dispatch that a choice takes: expert*capacity + position, or its place in order of (expert, token).
/// in: logits[tokens, experts], [bias[experts]], [expert_scale[experts]]; out: probs (the scores)[tokens, experts], weights[tokens, top_k], slots[tokens, top_k] (int32),
/// counts[experts] (int32; choices of each expert, dropped ones too)
struct TopKRouter { MoeDims dims; RouterRule routing{}; };
/// With the load-balancing loss aux_loss * experts * sum_e f_e P_e (Switch, arXiv 2101.03961 eq. 4; f: share of choices, P: mean
/// probability, of sigmoids their share in the token's sum), scaled by 1/micro_batches: parts of the global batch as large as
/// `tokens`. f is a constant to the gradient, and so is the choice: the bias has no gradient.
/// in: dweights[tokens, top_k], probs, weights, slots, counts (f's: of all that route), logits, [bias], [expert_scale]; out:
/// dlogits[tokens, experts], [dexpert_scale[experts]]
struct TopKRouterBackward { MoeDims dims; double aux_loss; std::int64_t micro_batches; RouterRule routing{}; };
/// What stands in the place of a gradient of the bias, for an update by its sign: how much more than the mean each expert was chosen by
/// this rank's tokens, (count * experts - tokens * top_k) * scale(). Sums over `micro_batches` parts of the global batch are at most 1, and
/// scale() is a power of two that does not depend on how the batch is split.
/// in: counts[experts] (int32); out: dbias[experts]
struct BalanceGrad {
  MoeDims dims;
  std::int64_t micro_batches;  ///< as in TopKRouterBackward
  double scale() const;
};
/// Rows of tokens where slots put them; rows nobody takes are 0. `weighted`: a choice's row is multiplied by its weight, here and not
/// where rows are combined (Llama 4). in: x[tokens, hidden], slots, [weights when weighted]; out: rows[dims.rows(), hidden]
struct MoeDispatch { MoeDims dims; bool weighted = false; };
/// in: drows, slots, [x, weights when weighted]; out: dx[tokens, hidden] (sum over choices, ascending),
/// [dweights[tokens, top_k] when weighted]
struct MoeDispatchBackward { MoeDims dims; bool weighted = false; };
/// y = sum over choices of weight * row, or of rows. in: rows[dims.rows(), hidden], slots, [weights when weighted]; out: y[tokens, hidden]
struct MoeCombine { MoeDims dims; bool weighted = true; };
/// in: dy, [rows when weighted], slots, [weights when weighted]; out: drows (rows nobody takes: 0), [dweights[tokens, top_k] when weighted]
struct MoeCombineBackward { MoeDims dims; bool weighted = true; };
/// Products with one matrix for each expert. Without `ragged`: groups of m rows, group g with matrix g % experts
/// (groups = experts x the ranks the rows came from): C[groups,m,n] = A[groups,m,k] op(B[experts]). With `ragged`: rows are in
/// order of (rank they came from, expert), counts[rank, expert] of them; groups = ranks they came from, and m is the planned
/// number of all rows: exact on one rank, an even share on several. B is [experts,k,n], or [experts,n,k] when trans_b.
/// in: A, B, [counts[groups, experts] int32 when ragged]; out: C
struct GroupedMatMul {
  std::int64_t groups, experts, m, n, k;
  bool trans_b = false, ragged = false;
  std::int64_t rows() const { return ragged ? m : groups * m; }
};
/// dW[experts,n,k] = sum over an expert's rows of dy^T x, groups ascending; `accumulate`: added to dW, of type `total`, when
/// complete. in: dy[groups,m,n], x[groups,m,k], [counts], [dW when accumulate]; out: dW
struct GroupedWeightGrad {
  std::int64_t groups, experts, m, n, k;
  bool ragged = false, accumulate = false;
  DType total = DType::fp32;   ///< of dW where it accumulates, else unread
  std::int64_t rows() const { return ragged ? m : groups * m; }
};
/// x += the bias of each row's expert, rows as in GroupedMatMul. `once`: only on the first of the ranks
/// that share the experts' matrices, where x is a partial sum.
/// in: x[groups,m,n](inout), bias[experts,n], [counts]; out: x
struct GroupedBias {
  std::int64_t groups, experts, m, n;
  bool once = false, ragged = false;
  std::int64_t rows() const { return ragged ? m : groups * m; }
};
/// in: dy[groups,m,n], [counts]; out: dbias[experts,n]
struct GroupedBiasGrad {
  std::int64_t groups, experts, m, n;
  bool ragged = false;
  std::int64_t rows() const { return ragged ? m : groups * m; }
};

}  // namespace tandem
