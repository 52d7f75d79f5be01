#include "models/lowering/templates/update_ops.hpp"

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"

namespace tandem::lowering {

std::vector<OptimizerState> optimizer_states(const OptimizerSpec& o, DType weights, const Shapes& s) {
  const DTypes& d = s.dtypes;
  const bool sgd = o.kind == OptimizerKind::sgd;
  std::vector<OptimizerState> states;
  if (!sgd || o.momentum > 0) states.push_back({"exp_avg", d.optimizer_state});
  if (!sgd) states.push_back({"exp_avg_sq", d.optimizer_state, true});
  if (d.master != weights) states.push_back({"master", held_master(s.fusion, d)});
  return states;
}

AdamW adamw_of(const OptimizerSpec& o, const DTypes& d, DType weights, std::int64_t elements) {
  return {elements, o.beta1, o.beta2, o.epsilon, o.weight_decay, d.master != weights, d.gradients, weights, d.optimizer_state,
          false, d.master};
}

std::int64_t elements_of(const OptimizerState& state, const UpdateSpec& u) {
  return u.state_elements - (state.squared ? u.unsquared_elements : 0);
}

namespace {

Op sgd_of(const UpdateSpec& u, const DTypes& d) {
  const OptimizerSpec& o = u.optimizer;
  return Sgd{u.state_elements, o.momentum, o.weight_decay, d.master != u.weights, d.gradients, u.weights, d.optimizer_state,
             u.stochastic, d.master};
}

/// Moonlight (arXiv 2502.16982 section 2.2) and the modes of Megatron-LM's --muon-scale-mode.
double shape_factor(MuonScale mode, const MuonMatrices& m) {
  const auto out = static_cast<double>(m.whole_rows), in = static_cast<double>(m.whole_cols);
  switch (mode) {
    case MuonScale::spectral: return std::sqrt(std::max(out, in));
    case MuonScale::shape: return std::sqrt(std::max(1.0, out / in));
    case MuonScale::unit_rms: return std::sqrt(out / in);
  }
  throw ContractError("unknown scale of Muon");
}

/// Frameworks iterate in bf16. fp16 has too few exponents for small elements of A, and other types are computed as they are.
DType iteration_type(DType compute) {
  if (compute == DType::fp16) return DType::fp32;
  return bits(compute) < 16 ? DType::bf16 : compute;
}

Muon muon_of(const UpdateSpec& u, const DTypes& d, const MuonMatrices& m) {
  const OptimizerSpec& o = u.optimizer;
  Muon op{m.count, m.rows, m.cols, m.whole_rows, m.whole_cols, o.muon.newton_schulz_steps, o.momentum, o.muon.nesterov,
          o.muon.scale * shape_factor(o.muon.scale_mode, m), o.weight_decay, d.master != u.weights};
  op.gradients = d.gradients, op.weights = u.weights, op.state = d.optimizer_state, op.masters = d.master;
  op.iteration = iteration_type(d.compute);
  op.stochastic = u.stochastic;
  return op;
}

}  // namespace

std::vector<Op> updates_of(const UpdateSpec& u, const DTypes& d) {
  const OptimizerSpec& o = u.optimizer;
  if (o.kind == OptimizerKind::sgd) return {sgd_of(u, d)};
  require(o.kind == OptimizerKind::adamw || o.kind == OptimizerKind::muon, "an optimizer whose operations need norms between them");
  std::vector<Op> ops;
  if (const std::int64_t rest = u.state_elements - u.unsquared_elements; rest > 0) {
    AdamW adamw = adamw_of(o, d, u.weights, rest);
    adamw.stochastic = u.stochastic;
    ops.push_back(adamw);
  }
  for (const MuonMatrices& m : u.matrices) ops.push_back(muon_of(u, d, m));
  return ops;
}

GradNorm own_norm(const UpdateSpec& u, const DTypes& d) { return {u.own_elements, d.gradients}; }

Collective norm_sum(const UpdateSpec& u) {
  return {CollectiveKind::all_reduce, u.norm_group, kExactWords, DType::int64, Reduce::sum};
}

ClipCoefficient clip_of(const UpdateSpec& u) { return {u.clip_grad, u.loss_scale}; }

}  // namespace tandem::lowering
