#include "models/lowering/templates/update_ops.hpp"

namespace tandem::lowering {

std::vector<OptimizerState> optimizer_states(const OptimizerSpec& o, DType weights, const Shapes& s) {
  const DTypes& d = s.dtypes;
  const bool sgd = o.kind == OptimizerKind::sgd;
  std::vector<OptimizerState> states;
  if (!sgd || o.momentum > 0) states.push_back({"exp_avg", d.optimizer_state});
  if (!sgd) states.push_back({"exp_avg_sq", d.optimizer_state});
  if (d.master != weights) states.push_back({"master", held_master(s.fusion, d)});
  return states;
}

AdamW adamw_of(const OptimizerSpec& o, const DTypes& d, DType weights, std::int64_t elements, bool stochastic) {
  return {elements,    o.beta1, o.beta2,           o.epsilon, o.weight_decay, d.master != weights,
          d.gradients, weights, d.optimizer_state, stochastic};
}

Sgd sgd_of(const OptimizerSpec& o, const DTypes& d, DType weights, std::int64_t elements, bool stochastic) {
  return {elements, o.momentum, o.weight_decay, d.master != weights, d.gradients, weights, d.optimizer_state, stochastic};
}

GradNorm own_norm(const UpdateSpec& u, const DTypes& d) { return {u.own_elements, d.gradients}; }

Collective norm_sum(const UpdateSpec& u) {
  return {CollectiveKind::all_reduce, u.norm_group, kExactWords, DType::int64, Reduce::sum};
}

}  // namespace tandem::lowering
