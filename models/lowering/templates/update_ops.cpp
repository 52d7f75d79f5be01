#include "models/lowering/templates/update_ops.hpp"

#include "models/base/error.hpp"

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

AdamW adamw_of(const OptimizerSpec& o, const DTypes& d, DType weights, std::int64_t elements) {
  return {elements, o.beta1, o.beta2, o.epsilon, o.weight_decay, d.master != weights, d.gradients, weights, d.optimizer_state};
}

Op update_of(const UpdateSpec& u, const DTypes& d) {
  const OptimizerSpec& o = u.optimizer;
  if (o.kind == OptimizerKind::sgd)
    return Sgd{u.state_elements, o.momentum, o.weight_decay, d.master != u.weights, d.gradients, u.weights, d.optimizer_state,
               u.stochastic};
  require(o.kind == OptimizerKind::adamw, "an optimizer of several operations has no single one");
  AdamW adamw = adamw_of(o, d, u.weights, u.state_elements);
  adamw.stochastic = u.stochastic;
  return adamw;
}

GradNorm own_norm(const UpdateSpec& u, const DTypes& d) { return {u.own_elements, d.gradients}; }

Collective norm_sum(const UpdateSpec& u) {
  return {CollectiveKind::all_reduce, u.norm_group, kExactWords, DType::int64, Reduce::sum};
}

ClipCoefficient clip_of(const UpdateSpec& u) { return {u.clip_grad, u.loss_scale}; }

}  // namespace tandem::lowering
