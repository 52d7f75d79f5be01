// Mixture of experts: routing, dispatch and combine (Shazeer et al., arXiv 1701.06538; Fedus et al., arXiv 2101.03961).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"
#include "exec/shared/routing.hpp"
#include "models/ops/row_capacity.hpp"

namespace tandem::exec::cpu {
namespace {

template <class T>
void softmax(const T* x, T* p, std::int64_t n) {
  const T top = lane_max<T>(n, -std::numeric_limits<T>::infinity(), [=](std::int64_t e) { return x[e]; });
  each(n, [=](std::int64_t e) { p[e] = exp_saturating(x[e] - top); });
  const T inverse = T{1} / lane_sum<T>(n, [=](std::int64_t e) { return p[e]; });
  each(n, [=](std::int64_t e) { p[e] *= inverse; });
}

template <class T>
void sigmoid(const T* x, T* p, std::int64_t n) {
  each(n, [=](std::int64_t e) { p[e] = sigmoid_score(x[e]); });
}

// A token's keys: its scores, or, if they differ, written to `buffer`.
template <class T>
const T* keys_of(const RouterRule& r, const T* scores, const T* bias, std::vector<T>& buffer) {
  if (r.plain()) return scores;
  buffer.assign(scores, scores + buffer.size());
  for (std::size_t e = 0; r.bias && e < buffer.size(); ++e) buffer[e] += bias[e];
  if (r.grouped()) leave_out_groups(r, buffer.data(), static_cast<std::int64_t>(buffer.size()));
  return buffer.data();
}

// The expert of every choice [tokens, top_k]: largest key first; of equal keys, the lower expert.
template <class T>
std::vector<std::int64_t> choices(const MoeDims& d, const RouterRule& r, const T* scores, const T* bias, const Call& call) {
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(d.tokens * d.top_k));
  call.team().split(d.tokens, call.team().grain(d.experts * d.top_k), [&](std::int64_t first, std::int64_t end) {
    std::vector<char> taken;
    std::vector<T> buffer(static_cast<std::size_t>(d.experts));
    for (std::int64_t t = first; t < end; ++t) {
      const T* keys = keys_of(r, scores + t * d.experts, bias, buffer);
      taken.assign(static_cast<std::size_t>(d.experts), 0);
      for (std::int64_t j = 0; j < d.top_k; ++j) {
        std::int64_t best = -1;
        for (std::int64_t e = 0; e < d.experts; ++e)
          if (taken[static_cast<std::size_t>(e)] == 0 && (best < 0 || comparable_key(keys[e]) > comparable_key(keys[best])))
            best = e;
        chosen[static_cast<std::size_t>(t * d.top_k + j)] = best;
        taken[static_cast<std::size_t>(best)] = 1;
      }
    }
  });
  return chosen;
}

// Divisor of a token's weights: the sum of its chosen scores if they are normalised, else 1.
template <class T>
T sum_of_chosen(const MoeDims& d, const RouterRule& r, const T* probs, const std::int64_t* chosen) {
  if (!normalizes(d, r)) return T{1};
  T sum = first_of_sum<T>(r);
  for (std::int64_t j = 0; j < d.top_k; ++j) sum += probs[chosen[j]];
  return sum;
}

// Counts each expert's choices, then assigns a row to each choice.
void write_slots(const MoeDims& d, const std::vector<std::int64_t>& chosen, std::int32_t* slots, std::int32_t* counts) {
  std::fill_n(counts, d.experts, 0);
  for (const std::int64_t e : chosen) ++counts[e];
  std::vector<std::int64_t> next(static_cast<std::size_t>(d.experts), 0), end = next;
  for (std::int64_t e = 0, row = 0; e < d.experts; ++e) {
    const auto at = static_cast<std::size_t>(e);
    next[at] = d.capacity > 0 ? e * d.capacity : row;
    end[at] = d.capacity > 0 ? next[at] + d.capacity : next[at] + counts[e];
    row = end[at];
  }
  for (const std::int64_t e : chosen) {
    const auto at = static_cast<std::size_t>(e);
    *slots++ = next[at] < end[at] ? static_cast<std::int32_t>(next[at]++) : -1;
  }
}

// Calls body(token, choice, row) for choices that have a row. A token's choices run in ascending order on one thread.
template <class F>
void each_choice(const MoeDims& d, const std::int32_t* slots, const Call& call, F body) {
  each_row(call, d.tokens, d.top_k * d.hidden, [=, &d](std::int64_t t) {
    for (std::int64_t i = t * d.top_k; i < (t + 1) * d.top_k; ++i) {
      require(slots[i] < d.rows(), "a choice beyond the experts' rows");
      if (slots[i] >= 0) body(t, i, slots[i]);
    }
  });
}

// The experts' learned scales, the last operand from index `in` on; null if there are none.
template <class T>
const T* expert_scales(const RouterRule& r, const Call& call, std::size_t in) {
  return r.expert_scale ? call.in<T>(in + (r.bias ? 1 : 0)) : nullptr;
}

// Weights are w_j times their expert's scale. Returns the gradients of all w_j; sums the scales' gradients in token order.
template <class T>
std::vector<T> through_scales(const TopKRouterBackward& op, const T* probs, const std::vector<std::int64_t>& chosen,
                              const T* dweights, const T* scales, T* dscales) {
  const MoeDims& d = op.dims;
  std::vector<T> dw(chosen.size());
  std::fill_n(dscales, d.experts, T{0});
  for (std::int64_t t = 0; t < d.tokens; ++t) {
    const T *p = probs + t * d.experts, sum = sum_of_chosen(d, op.routing, p, chosen.data() + t * d.top_k);
    for (std::int64_t i = t * d.top_k; i < (t + 1) * d.top_k; ++i) {
      const auto at = static_cast<std::size_t>(i);
      dw[at] = dweights[i] * scales[chosen[at]];
      dscales[chosen[at]] += dweights[i] * (p[chosen[at]] / sum * static_cast<T>(op.routing.scale));
    }
  }
  return dw;
}

// Adds d loss / d score of a token's experts, from the gradients of its weights. Normalised, unscaled weights are w_j = p_j / sum;
// their gradient is (dw_j - sum_i dw_i w_i) / sum.
template <class T>
void add_weight_gradient(const TopKRouterBackward& op, const T* probs, const std::int64_t* chosen, const T* dw, T* dp) {
  const MoeDims& d = op.dims;
  const T sum = sum_of_chosen(d, op.routing, probs, chosen), scale = static_cast<T>(op.routing.scale);
  T mean{0};
  if (normalizes(d, op.routing))
    for (std::int64_t j = 0; j < d.top_k; ++j) mean += scale * dw[j] * (probs[chosen[j]] / sum);
  for (std::int64_t j = 0; j < d.top_k; ++j) dp[chosen[j]] += (scale * dw[j] - mean) / sum;
}

// Converts the load-balancing loss's derivative for one token: from shares of the sum of scores to scores (Megatron-Core:
// core/transformer/moe/moe_utils.py, compute_routing_scores_for_aux_loss).
template <class T>
void auxiliary_of_shares(const std::vector<T>& auxiliary, const T* scores, T* dp) {
  const auto experts = static_cast<std::int64_t>(auxiliary.size());
  const T* by_share = auxiliary.data();
  const T sum = lane_sum<T>(experts, [=](std::int64_t e) { return scores[e]; });
  const T mean = lane_sum<T>(experts, [=](std::int64_t e) { return by_share[e] * (scores[e] / sum); });
  each(experts, [=](std::int64_t e) { dp[e] = (by_share[e] - mean) / sum; });
}

// The load-balancing loss's derivative by any token's probabilities. The share of choices counts as constant.
template <class T>
std::vector<T> auxiliary_gradient(const TopKRouterBackward& op, const std::int32_t* counts, double loss_scale) {
  const MoeDims& d = op.dims;
  const auto choices = static_cast<double>(std::accumulate(counts, counts + d.experts, std::int64_t{0}));
  const double scale = loss_scale * op.aux_loss;
  const double factor = scale * static_cast<double>(d.experts) / static_cast<double>(d.tokens * op.micro_batches);
  std::vector<T> out;
  for (std::int64_t e = 0; e < d.experts; ++e)
    out.push_back(static_cast<T>(factor * static_cast<double>(counts[e]) / choices));
  return out;
}

// Adds the z-loss's derivative by a token's logits: factor * log(sum_e exp(logit_e)) * softmax_e.
template <class T>
void add_z_gradient(T factor, const T* logits, std::int64_t experts, T* dlogits) {
  const T top = lane_max<T>(experts, -std::numeric_limits<T>::infinity(), [=](std::int64_t e) { return logits[e]; });
  const T sum = lane_sum<T>(experts, [=](std::int64_t e) { return exp_saturating(logits[e] - top); });
  const T each_share = factor * (top + std::log(sum)) / sum;
  each(experts, [=](std::int64_t e) { dlogits[e] += each_share * exp_saturating(logits[e] - top); });
}

// Converts derivatives by a token's scores to derivatives by its logits.
template <class T>
void through_scores(RouterScores scores, const T* p, std::int64_t experts, T* dp) {
  if (scores == RouterScores::sigmoid) return each(experts, [=](std::int64_t e) { dp[e] *= p[e] * (T{1} - p[e]); });
  const T mean = lane_sum<T>(experts, [=](std::int64_t e) { return dp[e] * p[e]; });
  each(experts, [=](std::int64_t e) { dp[e] = p[e] * (dp[e] - mean); });
}

}  // namespace

template <class T>
void compute(const TopKRouter& op, Call& call) {
  const MoeDims& d = op.dims;
  require(d.top_k >= 1 && d.top_k <= d.experts, "more choices than experts");
  const T* logits = call.in<T>(0);
  T *probs = call.out<T>(0), *weights = call.out<T>(1);
  const bool sigmoids = op.routing.scores == RouterScores::sigmoid;
  each_row(call, d.tokens, d.experts, [=, &d](std::int64_t t) {
    (sigmoids ? sigmoid<T> : softmax<T>)(logits + t * d.experts, probs + t * d.experts, d.experts);
  });
  const std::vector<std::int64_t> chosen = choices(d, op.routing, probs, op.routing.bias ? call.in<T>(1) : nullptr, call);
  const T scale = static_cast<T>(op.routing.scale);
  for (std::int64_t t = 0; t < d.tokens; ++t) {
    const T *p = probs + t * d.experts, sum = sum_of_chosen(d, op.routing, p, chosen.data() + t * d.top_k);
    for (std::int64_t i = t * d.top_k; i < (t + 1) * d.top_k; ++i)
      weights[i] = p[chosen[static_cast<std::size_t>(i)]] / sum * scale;
  }
  if (const T* scales = expert_scales<T>(op.routing, call, 1))
    for (std::size_t i = 0; i < chosen.size(); ++i) weights[i] *= scales[chosen[i]];
  write_slots(d, chosen, call.out<std::int32_t>(2), call.out<std::int32_t>(3));
}

template <class T>
void compute(const TopKRouterBackward& op, Call& call) {
  const MoeDims& d = op.dims;
  const T *dweights = call.in<T>(0), *probs = call.in<T>(1);
  T* dlogits = call.out<T>(0);
  const bool sigmoids = op.routing.scores == RouterScores::sigmoid;
  const std::vector<std::int64_t> chosen = choices(d, op.routing, probs, op.routing.bias ? call.in<T>(6) : nullptr, call);
  const std::vector<T> auxiliary = auxiliary_gradient<T>(op, call.in<std::int32_t>(4), call.table().loss_scale);
  const auto z_factor = static_cast<T>(2 * call.table().loss_scale * op.z_loss / static_cast<double>(d.tokens * op.micro_batches));
  std::vector<T> unscaled;
  if (const T* scales = expert_scales<T>(op.routing, call, 6)) {
    unscaled = through_scales(op, probs, chosen, dweights, scales, call.out<T>(1));
    dweights = unscaled.data();
  }
  each_row(call, d.tokens, d.experts, [&](std::int64_t t) {
    const T* p = probs + t * d.experts;
    T* dp = dlogits + t * d.experts;
    if (sigmoids && op.aux_loss > 0) auxiliary_of_shares(auxiliary, p, dp);
    else std::copy(auxiliary.begin(), auxiliary.end(), dp);
    add_weight_gradient(op, p, chosen.data() + t * d.top_k, dweights + t * d.top_k, dp);
    through_scores(op.routing.scores, p, d.experts, dp);
    if (op.z_loss > 0) add_z_gradient(z_factor, call.in<T>(5) + t * d.experts, d.experts, dp);
  });
}

template <class T>
void compute(const BalanceGrad& op, Call& call) {
  const MoeDims& d = op.dims;
  const std::int32_t* counts = call.in<std::int32_t>(0);
  T* out = call.out<T>(0);
  for (std::int64_t e = 0; e < d.experts; ++e)
    out[e] = static_cast<T>(static_cast<double>(counts[e] * d.experts - d.tokens * d.top_k) * op.scale());
}

template <class T>
void compute(const ExpertSlots& op, Call& call) {
  const MoeDims& d = op.dims;
  const std::int32_t *slots = call.in<std::int32_t>(0), *counts = call.in<std::int32_t>(1);
  std::int32_t *placed = call.out<std::int32_t>(0), *here = call.out<std::int32_t>(1);
  const std::int64_t first = call.context().expert_rank * d.here, choices = d.tokens * d.top_k;
  std::int64_t row = 0;
  std::vector<std::int64_t> end(static_cast<std::size_t>(d.experts)), shift = end;
  for (std::int64_t m = 0; m < op.members; ++m, counts += d.experts, slots += choices, placed += choices, here += d.here) {
    std::partial_sum(counts, counts + d.experts, end.begin());
    for (std::int64_t e = first; e < first + d.here; ++e) {
      const auto at = static_cast<std::size_t>(e);
      shift[at] = row - (end[at] - counts[e]);
      here[e - first] = counts[e];
      row += counts[e];
    }
    require_capacity(row, d.rows());
    for (std::int64_t i = 0; i < choices; ++i) {
      const std::int64_t e = std::upper_bound(end.begin(), end.end(), slots[i]) - end.begin();
      const bool mine = e >= first && e < first + d.here;
      placed[i] = mine ? static_cast<std::int32_t>(slots[i] + shift[static_cast<std::size_t>(e)]) : -1;
    }
  }
}

template <class T>
void compute(const MoeDispatch& op, Call& call) {
  const std::int64_t hidden = op.dims.hidden;
  const T *x = call.in<T>(0), *weights = op.weighted ? call.in<T>(2) : nullptr;
  T* rows = call.out<T>(0);
  fill(call, rows, op.dims.rows() * hidden, T{0});
  each_choice(op.dims, call.in<std::int32_t>(1), call, [=](std::int64_t token, std::int64_t choice, std::int64_t row) {
    const T *from = x + token * hidden, weight = weights == nullptr ? T{1} : weights[choice];
    each(hidden, [=, to = rows + row * hidden](std::int64_t c) { to[c] = weight * from[c]; });
  });
}

template <class T>
void compute(const MoeDispatchBackward& op, Call& call) {
  const std::int64_t hidden = op.dims.hidden;
  const T *drows = call.in<T>(0), *x = op.weighted ? call.in<T>(2) : nullptr, *weights = op.weighted ? call.in<T>(3) : nullptr;
  T *dx = call.out<T>(0), *dweights = op.weighted ? call.out<T>(1) : nullptr;
  fill(call, dx, op.dims.tokens * hidden, T{0});
  if (op.weighted) std::fill_n(dweights, op.dims.tokens * op.dims.top_k, T{0});
  each_choice(op.dims, call.in<std::int32_t>(1), call, [=](std::int64_t token, std::int64_t choice, std::int64_t row) {
    const T *from = drows + row * hidden, weight = op.weighted ? weights[choice] : T{1};
    each(hidden, [=, to = dx + token * hidden](std::int64_t c) { to[c] += weight * from[c]; });
    if (op.weighted)
      dweights[choice] = lane_sum<T>(hidden, [=, read = x + token * hidden](std::int64_t c) { return from[c] * read[c]; });
  });
}

template <class T>
void compute(const MoeCombine& op, Call& call) {
  const std::int64_t hidden = op.dims.hidden;
  const T *rows = call.in<T>(0), *weights = op.weighted ? call.in<T>(2) : nullptr;
  T* y = call.out<T>(0);
  fill(call, y, op.dims.tokens * hidden, T{0});
  each_choice(op.dims, call.in<std::int32_t>(1), call, [=](std::int64_t token, std::int64_t choice, std::int64_t row) {
    const T weight = op.weighted ? weights[choice] : T{1};
    each(hidden, [=, to = y + token * hidden, from = rows + row * hidden](std::int64_t c) { to[c] += weight * from[c]; });
  });
}

template <class T>
void compute(const MoeCombineBackward& op, Call& call) {
  const std::int64_t hidden = op.dims.hidden;
  // The rows' gradients are those of their tokens.
  if (!op.weighted) return compute<T>(MoeDispatch{op.dims}, call);
  const T *dy = call.in<T>(0), *rows = call.in<T>(1), *weights = call.in<T>(3);
  T *drows = call.out<T>(0), *dweights = call.out<T>(1);
  fill(call, drows, op.dims.rows() * hidden, T{0});
  std::fill_n(dweights, op.dims.tokens * op.dims.top_k, T{0});
  each_choice(op.dims, call.in<std::int32_t>(2), call, [=](std::int64_t token, std::int64_t choice, std::int64_t row) {
    const T *from = dy + token * hidden, *x = rows + row * hidden, weight = weights[choice];
    each(hidden, [=, to = drows + row * hidden](std::int64_t c) { to[c] = weight * from[c]; });
    dweights[choice] = lane_sum<T>(hidden, [=](std::int64_t c) { return from[c] * x[c]; });
  });
}

TANDEM_KERNEL(TopKRouter);
TANDEM_KERNEL(TopKRouterBackward);
TANDEM_KERNEL(BalanceGrad);
TANDEM_KERNEL(ExpertSlots);
TANDEM_KERNEL(MoeDispatch);
TANDEM_KERNEL(MoeDispatchBackward);
TANDEM_KERNEL(MoeCombine);
TANDEM_KERNEL(MoeCombineBackward);

}  // namespace tandem::exec::cpu
