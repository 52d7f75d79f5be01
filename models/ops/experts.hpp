#pragma once
// Mixture of experts: router, dispatch and combine of rows, products with a matrix per expert. Conventions: models/ops/op.hpp.

#include <cstdint>

#include "models/base/dtype.hpp"
#include "models/plan/routing.hpp"

namespace tandem {

/// Sizes of one layer's routing on one rank. capacity: most rows that an expert takes from one rank's tokens; 0: dropless.
/// A rank that gathered the tokens of several ranks has rows for its own experts' choices alone: room for `room`, `here` experts.
struct MoeDims {
  std::int64_t tokens, hidden, experts, top_k, capacity;
  std::int64_t room = 0, here = 0;
  bool by_element = false;  ///< only the simulator reads it: a stack that moves rows by single elements, twice
  /// Rows for experts: `room`, or `capacity` for each expert, or one for each choice of each token.
  std::int64_t rows() const { return room > 0 ? room : capacity > 0 ? experts * capacity : tokens * top_k; }
  /// Rows that the plan expects to be used.
  std::int64_t used_rows() const { return room > 0 ? tokens * top_k * here / experts : rows(); }
};
/// How logits become chosen experts and weights. Experts are chosen by their keys: the score plus, with `bias`, a bias per expert.
struct RouterRule {
  RouterScores scores = RouterScores::softmax;
  bool normalize = true;                ///< chosen scores are divided by their sum when top_k > 1
  double scale = 1;                     ///< factor of the normalized weights
  std::int64_t groups = 0, kept_groups = 0;  ///< only experts of the kept_groups best groups can be chosen; 0: no groups
  GroupScore group_score = GroupScore::max;  ///< how a group's score follows from its experts' keys
  bool bias = false;
  bool expert_scale = false;            ///< weights are last multiplied by a learned number per expert
  constexpr bool grouped() const { return kept_groups < groups; }
  /// Whether the keys are the scores.
  constexpr bool plain() const { return !bias && !grouped(); }
};
/// Added to the sum of sigmoids before the division by it, since the sum may be 0
/// in fp32 (huggingface/transformers: models/deepseek_v3, route_tokens_to_experts).
inline constexpr double kSmallestSum = 1e-20;

/// Chooses each token's top_k experts with the largest keys; the lower index wins a tie. Weights are their scores, normalized
/// and scaled. Choices beyond the capacity (ascending token, then choice) are dropped: slot -1. slots: the row of a choice in
/// dispatch, expert*capacity + position, or dropless its place in order of (expert, token).
/// in: logits[tokens, experts], [bias[experts]], [expert_scale[experts]]; out: probs[tokens, experts] (scores),
/// weights[tokens, top_k], slots[tokens, top_k] (int32), counts[experts] (int32; each expert's choices, dropped ones included)
struct TopKRouter { MoeDims dims; RouterRule routing{}; };
/// Includes the load-balancing loss aux_loss * experts * sum_e f_e P_e (Switch, arXiv 2101.03961 eq. 4; f: share of choices,
/// P: mean probability; a sigmoid's is its share of the token's sum). It is divided by micro_batches, the parts of `tokens`
/// tokens in the global batch. The gradient treats f and the choice as constants, so the bias has none.
/// Includes the z-loss: z_loss * the mean over tokens of log(sum_e exp(logit_e))^2 (arXiv 2202.08906 eq. 5), divided alike.
/// in: dweights[tokens, top_k], probs, weights, slots, counts (over all ranks that f covers), logits, [bias], [expert_scale];
/// out: dlogits[tokens, experts], [dexpert_scale[experts]]
struct TopKRouterBackward {
  MoeDims dims;
  double aux_loss;
  std::int64_t micro_batches;
  RouterRule routing{};
  double z_loss = 0;
};
/// Stands in for the bias' gradient in an update by its sign: an expert's choices above the mean, among
/// this rank's tokens, (count * experts - tokens * top_k) * scale(). scale() is a power of two, whatever
/// the split of the batch. It keeps the sum over the `micro_batches` parts of the global batch at most 1.
/// in: counts[experts] (int32); out: dbias[experts]
struct BalanceGrad {
  MoeDims dims;
  std::int64_t micro_batches;  ///< as in TopKRouterBackward
  double scale() const;
};
/// Finds this rank's experts among the choices of all `members` that it gathered tokens from, `dims` each (dropless). A choice of
/// one of its `here` experts gets its row in order of (member, expert, token), as an exchange would bring it; others get slot -1.
/// DeviceError if they are more than dims.room. in: slots[members, tokens, top_k], counts[members, experts] (int32, of TopKRouter);
/// out: slots[members, tokens, top_k], counts[members, here] (int32)
struct ExpertSlots { MoeDims dims; std::int64_t members; };
/// Copies tokens' rows to their slots; unused rows of a capacity are 0. `weighted`: multiplies by the weights here, not in MoeCombine.
/// in: x[tokens, hidden], slots, [weights when weighted]; out: rows[dims.rows(), hidden]
struct MoeDispatch { MoeDims dims; bool weighted = false; };
/// in: drows, slots, [x, weights when weighted]; out: dx[tokens, hidden] (sum over choices, ascending),
/// [dweights[tokens, top_k] when weighted]
struct MoeDispatchBackward { MoeDims dims; bool weighted = false; };
/// y = sum over choices of (weight *) row. in: rows[dims.rows(), hidden], slots, [weights when weighted]; out: y[tokens, hidden]
struct MoeCombine { MoeDims dims; bool weighted = true; };
/// in: dy, [rows when weighted], slots, [weights when weighted]; out: drows (unused: 0), [dweights[tokens, top_k] when weighted]
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
  DType total = DType::fp32;   ///< type of dW with `accumulate`, else unused
  std::int64_t rows() const { return ragged ? m : groups * m; }
};
/// x += the bias of each row's expert, rows as in GroupedMatMul. `once`: only on the first of the ranks
/// that share the experts' matrices, where x is a partial sum. `weighted`: as frameworks of single operations add it behind the
/// router's weights: expert by expert, product and sum in fp32, joined, and rounded back.
/// in: x[groups,m,n](inout), bias[experts,n], [counts]; out: x
struct GroupedBias {
  std::int64_t groups, experts, m, n;
  bool once = false, ragged = false, weighted = false;
  std::int64_t rows() const { return ragged ? m : groups * m; }
};
/// `weighted`: of such a bias, with the gradients of the rows and of the router's weights by single operations.
/// in: dy[groups,m,n], [counts]; out: dbias[experts,n]
struct GroupedBiasGrad {
  std::int64_t groups, experts, m, n;
  bool ragged = false, weighted = false;
  std::int64_t rows() const { return ragged ? m : groups * m; }
};

}  // namespace tandem
