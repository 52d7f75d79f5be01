#pragma once
// Mixture-of-experts routing (exec/cpu/moe): scores, choices, weights and rows, and the router's gradient.

#include <cmath>
#include <limits>

#include "exec/backend/step_table.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/fault.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/routing.hpp"

namespace tandem::exec::device {

/// Tokens per block: as many as fit with their rows of expert numbers into shared memory, one thread each.
inline std::int64_t routed_tokens(Form form, std::int64_t experts, std::int64_t rows) {
  const std::int64_t row = rows * (experts + 1) * static_cast<std::int64_t>(form == Form::doubles ? sizeof(double) : sizeof(float));
  const std::int64_t fit = (std::int64_t{24} << 10) / row;
  return fit < 1 ? 1 : fit > kThreads ? kThreads : fit;
}

inline std::size_t routed_bytes(Form form, std::int64_t tokens, std::int64_t experts, std::int64_t rows) {
  return static_cast<std::size_t>(tokens * rows * (experts + 1)) * (form == Form::doubles ? sizeof(double) : sizeof(float));
}

/// Rows kept per token: `rows`, plus one for the keys if they differ from the scores.
constexpr std::int64_t routed_rows(const RouterRule& r, std::int64_t rows) { return rows + (r.plain() ? 0 : 1); }

/// A token's keys: its scores, or, if they differ, written to `scratch`.
template <class A>
TANDEM_HD inline const A* keys_of(const RouterRule& r, const A* scores, const Typed& bias, A* scratch, std::int64_t experts) {
  if (r.plain()) return scores;
  for (std::int64_t e = 0; e < experts; ++e) scratch[e] = r.bias ? scores[e] + load<A>(bias, e) : scores[e];
  if (r.grouped()) leave_out_groups(r, scratch, experts);
  return scratch;
}

/// The choice after `last` (-1: the first): next largest key; of equal keys, the lower expert.
template <class A>
TANDEM_HD inline std::int64_t next_choice(const A* keys, std::int64_t experts, std::int64_t last) {
  std::int64_t best = -1;
  const A before = last < 0 ? A{0} : comparable_key(keys[last]);
  A most = A{0};
  for (std::int64_t e = 0; e < experts; ++e) {
    const A key = comparable_key(keys[e]);
    const bool left = last < 0 || key < before || (key == before && e > last);
    if (left && (best < 0 || key > most)) best = e, most = key;
  }
  return best;
}

/// Divisor of the weights: the sum of the chosen scores if weights are normalised, else 1.
template <class A>
TANDEM_HD inline A sum_of_chosen(const MoeDims& d, const RouterRule& r, const A* scores, const A* keys) {
  if (!normalizes(d, r)) return A{1};
  A sum = first_of_sum<A>(r);
  for (std::int64_t j = 0, e = -1; j < d.top_k; ++j) {
    e = next_choice(keys, d.experts, e);
    sum += scores[e];
  }
  return sum;
}

/// Replaces a token's logits by probabilities.
template <class A>
TANDEM_HD inline void softmax_of_token(A* p, std::int64_t experts) {
  A top = p[0], sum = A{0};
  for (std::int64_t e = 1; e < experts; ++e) top = p[e] > top ? p[e] : top;
  for (std::int64_t e = 0; e < experts; ++e) sum += p[e] = exp_saturating(p[e] - top);
  const A inverse = A{1} / sum;
  for (std::int64_t e = 0; e < experts; ++e) p[e] *= inverse;
}

/// Computes scores, weights, and the expert of every choice.
struct RouterKernel {
  Form form;
  Typed logits, bias, probs, weights;
  std::int32_t* chosen;
  MoeDims dims;
  RouterRule routing;
  std::int64_t tokens_of_block;
  Typed scales = {};  ///< learned scales of the experts

  Grid grid() const {
    return {(dims.tokens + tokens_of_block - 1) / tokens_of_block,
            routed_bytes(form, tokens_of_block, dims.experts, routed_rows(routing, 1))};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    A* rows = reinterpret_cast<A*>(block.shared());
    A* keys = rows + tokens_of_block * (dims.experts + 1);
    const std::int64_t first = block.index() * tokens_of_block, rest = dims.tokens - first, experts = dims.experts;
    const std::int64_t tokens = rest < tokens_of_block ? rest : tokens_of_block;
    const auto place = [&](std::int64_t i) { return i / experts * (experts + 1) + i % experts; };
    block.each(tokens * experts, [&](std::int64_t i) { rows[place(i)] = S::get(logits, first * experts + i); });
    block.each(tokens, [&](std::int64_t t) {
      A* p = rows + t * (experts + 1);
      if (routing.scores == RouterScores::softmax) softmax_of_token(p, experts);
      else
        for (std::int64_t e = 0; e < experts; ++e) p[e] = sigmoid_score(p[e]);
      const A* key = keys_of(routing, p, bias, keys + t * (experts + 1), experts);
      const A all = sum_of_chosen(dims, routing, p, key), scale = static_cast<A>(routing.scale);
      for (std::int64_t j = 0, e = -1; j < dims.top_k; ++j) {
        e = next_choice(key, experts, e);
        chosen[(first + t) * dims.top_k + j] = static_cast<std::int32_t>(e);
        const A weight = p[e] / all * scale;
        store(weights, (first + t) * dims.top_k + j, scales.here() ? weight * load<A>(scales, e) : weight);
      }
    });
    block.each(tokens * experts, [&](std::int64_t i) { S::put(probs, first * experts + i, rows[place(i)]); });
  }
};

/// counts[e]: number of choices of each expert. One block per expert.
struct ChoiceCountsKernel {
  Form form;
  const std::int32_t* chosen;
  std::int32_t* counts;
  std::int64_t choices, experts;

  Grid grid() const { return {experts}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const std::int64_t expert = block.index();
    const double n = block.template sum<double>(choices, [&](std::int64_t i) { return chosen[i] == expert ? 1.0 : 0.0; });
    block.each(1, [&](std::int64_t) { counts[expert] = static_cast<std::int32_t>(n); });
  }
};

/// The row of every choice, ordered by (expert, token, choice). One block per expert.
struct SlotsKernel {
  Form form;
  const std::int32_t *chosen, *counts;
  std::int32_t* slots;
  MoeDims dims;

  Grid grid() const { return {dims.experts, sizeof(std::int64_t) * (kThreads + 1)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    auto* before = reinterpret_cast<std::int64_t*>(block.shared());
    const std::int64_t expert = block.index(), choices = dims.tokens * dims.top_k, run = (choices + kThreads - 1) / kThreads;
    const auto each_of = [&](std::int64_t part, auto body) {
      const std::int64_t end = (part + 1) * run < choices ? (part + 1) * run : choices;
      for (std::int64_t i = part * run; i < end; ++i)
        if (chosen[i] == expert) body(i);
    };
    block.each(kThreads, [&](std::int64_t part) {
      std::int64_t n = 0;
      each_of(part, [&](std::int64_t) { ++n; });
      before[part] = n;
    });
    block.each(1, [&](std::int64_t) {
      std::int64_t row = expert * dims.capacity;
      for (std::int64_t e = 0; dims.capacity == 0 && e < expert; ++e) row += counts[e];
      before[kThreads] = dims.capacity > 0 ? row + dims.capacity : row + counts[expert];
      for (std::int64_t part = 0; part < kThreads; ++part) {
        const std::int64_t n = before[part];
        before[part] = row;
        row += n;
      }
    });
    block.each(kThreads, [&](std::int64_t part) {
      std::int64_t row = before[part];
      each_of(part, [&](std::int64_t i) { slots[i] = row < before[kThreads] ? static_cast<std::int32_t>(row) : -1, ++row; });
    });
  }
};

/// ExpertSlots. One block per member. If more rows come than `capacity`, no choice has a row.
struct ExpertSlotsKernel {
  Form form;
  const std::int32_t *slots, *counts;
  std::int32_t *placed, *here;
  MoeDims dims;
  std::int64_t members, first_expert, capacity;
  Fault* fault;

  Grid grid() const { return {members, sizeof(std::int64_t) * static_cast<std::size_t>(2 * dims.experts)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    auto* end = reinterpret_cast<std::int64_t*>(block.shared());  ///< of each expert's slots at the member
    auto* row = end + dims.experts;                               ///< first row here of each of this rank's experts
    const std::int64_t member = block.index(), choices = dims.tokens * dims.top_k;
    const std::int32_t* mine = counts + member * dims.experts;
    const auto rows_of = [&](std::int64_t first, std::int64_t last) {
      return static_cast<std::int64_t>(block.template sum<double>((last - first) * dims.here, [&](std::int64_t i) {
        return static_cast<double>(counts[(first + i / dims.here) * dims.experts + first_expert + i % dims.here]);
      }));
    };
    const std::int64_t before = rows_of(0, member), all = before + rows_of(member, members);
    const bool fits = all <= capacity;
    block.each(1, [&](std::int64_t) {
      if (!fits) fault->set(FaultKind::capacity, all);
      for (std::int64_t e = 0, sum = 0; e < dims.experts; ++e) end[e] = sum += mine[e];
      for (std::int64_t e = 0, sum = before; e < dims.here; sum += mine[first_expert + e], ++e) row[e] = sum;
    });
    block.each(dims.here, [&](std::int64_t e) { here[member * dims.here + e] = fits ? mine[first_expert + e] : 0; });
    block.each(choices, [&](std::int64_t i) {
      const std::int64_t slot = slots[member * choices + i];
      std::int64_t low = 0, high = dims.experts;
      while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (end[middle] <= slot) low = middle + 1;
        else high = middle;
      }
      const std::int64_t e = low - first_expert;
      const bool placed_here = fits && e >= 0 && e < dims.here;
      placed[member * choices + i] = placed_here ? static_cast<std::int32_t>(row[e] + slot - (end[low] - mine[low])) : -1;
    });
  }
};

/// BalanceGrad: (count * experts - choices) * scale.
struct BalanceGradKernel {
  Form form;
  const std::int32_t* counts;
  Typed gradient;
  std::int64_t experts, choices;
  double scale;

  Grid grid() const { return {1}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    block.each(experts, [&](std::int64_t e) {
      store(gradient, e, static_cast<A>(static_cast<double>(counts[e] * experts - choices) * scale));
    });
  }
};

/// Gradient of the experts' learned scales, one block each: the sum of its choices' terms, in a fixed order.
struct ScaleGradKernel {
  Form form;
  const std::int32_t* chosen;
  Typed added, dscales;
  std::int64_t choices, experts;

  Grid grid() const { return {experts}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t expert = block.index();
    const A sum = block.template sum<A>(choices, [&](std::int64_t i) { return chosen[i] == expert ? S::get(added, i) : A{0}; });
    block.each(1, [&](std::int64_t) { store(dscales, expert, sum); });
  }
};

/// dlogits, including the load-balancing loss: counts over all routed tokens, times `factor` and the loss scale; and the z-loss.
struct RouterGradKernel {
  Form form;
  Typed dweights, probs, bias, dlogits;
  const std::int32_t* counts;
  MoeDims dims;
  RouterRule routing;
  double factor;
  const StepTable* table;
  std::int64_t tokens_of_block;
  Typed scales = {}, added = {};  ///< learned scales of the experts; each choice's term of their gradient
  std::int32_t* chosen = nullptr;
  Typed logits = {};       ///< read by the z-loss only
  double z_factor = 0;     ///< of log(sum_e exp(logit_e)) * softmax_e in the z-loss's gradient; times the loss scale

  Grid grid() const {
    return {(dims.tokens + tokens_of_block - 1) / tokens_of_block,
            routed_bytes(form, tokens_of_block, dims.experts, routed_rows(routing, 2))};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t experts = dims.experts, width = experts + 1;
    A* rows = reinterpret_cast<A*>(block.shared());
    A *gradients = rows + tokens_of_block * width, *keys = gradients + tokens_of_block * width;
    const std::int64_t first = block.index() * tokens_of_block, rest = dims.tokens - first;
    const std::int64_t tokens = rest < tokens_of_block ? rest : tokens_of_block;
    const double choices = block.template sum<double>(experts, [&](std::int64_t e) { return static_cast<double>(counts[e]); });
    const double scale = table->loss_scale * factor;
    block.each(tokens * experts, [&](std::int64_t i) {
      const std::int64_t at = i / experts * width + i % experts;
      rows[at] = S::get(probs, first * experts + i);
      gradients[at] = static_cast<A>(scale * static_cast<double>(counts[i % experts]) / choices);
    });
    block.each(tokens, [&](std::int64_t t) {
      const A* p = rows + t * width;
      A* dp = gradients + t * width;
      if (routing.scores == RouterScores::sigmoid && factor > 0) auxiliary_of_shares(p, dp);
      add_weight_gradient(p, keys_of(routing, p, bias, keys + t * width, experts), dp, (first + t) * dims.top_k);
      through_scores(p, dp);
      if (z_factor > 0) add_z_gradient<S>((first + t) * experts, dp);
    });
    block.each(tokens * experts, [&](std::int64_t i) {
      S::put(dlogits, first * experts + i, gradients[i / experts * width + i % experts]);
    });
  }

 private:
  /// Converts derivatives by a token's scores to derivatives by its logits.
  template <class A>
  TANDEM_HD void through_scores(const A* p, A* dp) const {
    if (routing.scores == RouterScores::sigmoid) {
      for (std::int64_t e = 0; e < dims.experts; ++e) dp[e] *= p[e] * (A{1} - p[e]);
      return;
    }
    A mean = A{0};
    for (std::int64_t e = 0; e < dims.experts; ++e) mean += dp[e] * p[e];
    for (std::int64_t e = 0; e < dims.experts; ++e) dp[e] = p[e] * (dp[e] - mean);
  }
  /// Adds the z-loss's derivative by the logits of the token whose first one is number `at`.
  template <class S, class A>
  TANDEM_HD void add_z_gradient(std::int64_t at, A* dlogits) const {
    A top = S::get(logits, at), sum = A{0};
    for (std::int64_t e = 1; e < dims.experts; ++e) {
      const A logit = S::get(logits, at + e);
      top = logit > top ? logit : top;
    }
    for (std::int64_t e = 0; e < dims.experts; ++e) sum += exp_saturating(S::get(logits, at + e) - top);
    const A factor = static_cast<A>(table->loss_scale * z_factor) * (top + std::log(sum)) / sum;
    for (std::int64_t e = 0; e < dims.experts; ++e) dlogits[e] += factor * exp_saturating(S::get(logits, at + e) - top);
  }
  /// Converts the load-balancing loss's derivative: from shares of the token's sum of scores to the scores.
  template <class A>
  TANDEM_HD void auxiliary_of_shares(const A* p, A* dp) const {
    A sum = A{0}, mean = A{0};
    for (std::int64_t e = 0; e < dims.experts; ++e) sum += p[e];
    for (std::int64_t e = 0; e < dims.experts; ++e) mean += dp[e] * (p[e] / sum);
    for (std::int64_t e = 0; e < dims.experts; ++e) dp[e] = (dp[e] - mean) / sum;
  }
  /// Adds (dw_j - sum_i dw_i w_i) / sum, where w_j = p_j / sum before scaling. dw includes the expert's learned scale.
  template <class A>
  TANDEM_HD void add_weight_gradient(const A* p, const A* keys, A* dp, std::int64_t at) const {
    const A sum = sum_of_chosen(dims, routing, p, keys), scale = static_cast<A>(routing.scale);
    const auto gradient = [&](std::int64_t j, std::int64_t e) {
      const A dw = load<A>(dweights, at + j);
      return scales.here() ? dw * load<A>(scales, e) : dw;
    };
    A mean = A{0};
    for (std::int64_t j = 0, e = -1; normalizes(dims, routing) && j < dims.top_k; ++j) {
      e = next_choice(keys, dims.experts, e);
      mean += scale * gradient(j, e) * (p[e] / sum);
    }
    for (std::int64_t j = 0, e = -1; j < dims.top_k; ++j) {
      e = next_choice(keys, dims.experts, e);
      dp[e] += (scale * gradient(j, e) - mean) / sum;
      if (!scales.here()) continue;
      chosen[at + j] = static_cast<std::int32_t>(e);
      store(added, at + j, load<A>(dweights, at + j) * (p[e] / sum * scale));
    }
  }
};

}  // namespace tandem::exec::device
