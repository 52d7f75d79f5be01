// The backward pass of a layer of experts.

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {

Value BlockBackward::expert_input() { return a_.experts_input(x_.state); }
Value BlockBackward::router_input() { return a_.router_input(x_.state); }

Value BlockBackward::experts(const Value& d) {
  Value dweights;
  const Value dx = expert_branch(d, dweights);
  // The router's gradient is complete for its rows, so it is added after the sum.
  const Value routed = router(dweights);
  b_.add("add_router", Accumulate{dx.elements, dtype(), dtype()}, {routed, dx}, {dx});
  return dx;
}

/// Experts beside an MLP: backward through the norms after both branches and those before experts, MLP and router, onto `residual`.
void BlockBackward::branches(const Value& d, const Value& residual, const Value& to) {
  const BlockSaved& t = a_.at();
  const MoeSaved& m = t.moe;
  const Value routed = rows_scratch(), shared = hold(held_.shared, s_.rows * s_.hidden);
  norm_gradient("experts_out", {d, m.experts_out, m.experts_stats, weights_.block("experts_out.weight")}, routed);
  norm_gradient("shared_out", {d, m.shared_out, m.shared_stats, weights_.block("shared_out.weight")}, shared);
  Value dweights;
  const Value dx = expert_branch(routed, dweights);
  const Summed part = shared_input(shared);
  const Value dmlp = s_.sequence_parallel ? part.value : summed(tensor_sum(b_, s_, part.value, "shared.fc1_dgrad", part.task));
  const Value drouter = router(dweights), with_mlp = rows_scratch();
  norm_gradient("ln2", {dmlp, t.x2, t.ln2_stats, weights_.block("ln2.weight"), &residual}, with_mlp);
  if (!s_.router_norm) b_.add("add_router", Accumulate{dx.elements, dtype(), dtype()}, {drouter, dx}, {dx});
  const Value with_experts = s_.router_norm ? rows_scratch() : to;
  norm_gradient("experts_ln", {dx, t.x2, m.n_stats, weights_.block("experts_ln.weight"), &with_mlp}, with_experts);
  if (s_.router_norm)
    norm_gradient("router_norm", {drouter, t.x2, m.router_stats, weights_.block("router_norm.weight"), &with_experts}, to);
}

/// Complete gradient of the experts' input; `dweights`: of the router weights.
Value BlockBackward::expert_branch(const Value& d, Value& dweights) {
  MoeSaved& m = a_.at().moe;
  const MoeDims dims = s_.dispatch_dims(), own = s_.moe_dims();
  const bool gathers = s_.gathers_tokens();
  if (!s_.keep.routed) a_.route(router_input());
  if (s_.whole_modules && !s_.keep.dispatched) {
    a_.experts_return(expert_input());
    a_.combine(rows_scratch());
  }
  const bool reads_rows = !frozen() || a_.adapter_reads("experts.fc1");
  if ((reads_rows && !m.dispatched.ready) || !m.fc1.ready) a_.expert_fc1(expert_input());
  const bool early = s_.weigh_inputs;
  const Value drows = scratch(dims.rows() * s_.hidden), dy = a_.of_members(d, "combine_gradient"), placed = a_.placed();
  dweights = b_.scratch(s_.numerics.router, own.tokens * own.top_k);
  const Value all_dweights = gathers ? b_.scratch(s_.numerics.router, dims.tokens * dims.top_k) : dweights;
  // A framework that weighs activations reads their input again for the weights' gradients, not the rows: taken for as many bytes.
  const Value rows = s_.fusion.weighted_activations ? m.fc1 : m.returned;
  const auto combine = early ? b_.add("combine_backward", MoeCombineBackward{dims, false}, {dy, placed}, {drows})
                             : b_.add("combine_backward", MoeCombineBackward{dims}, {dy, rows, placed, a_.choice_weights()},
                                      {drows, all_dweights});
  // Under sequence parallelism returned rows are complete, or become so with the sum over members.
  const auto complete = [&](std::uint16_t task) {
    if (gathers) task = a_.sum_members(all_dweights, "dweights", dweights);
    if (!s_.sequence_parallel) tensor_all_reduce(b_, s_, dweights, "dweights", task);
  };
  if (!early) complete(combine);
  const Value back = expert_rows(drows);
  const Value dx = rows_scratch(), all_dx = gathers ? scratch(dims.tokens * s_.hidden) : dx;
  auto last = early ? b_.add("dispatch_backward", MoeDispatchBackward{dims, true},
                             {back, placed, a_.of_members(expert_input(), "tokens"), a_.choice_weights()}, {all_dx, all_dweights})
                    : b_.add("dispatch_backward", MoeDispatchBackward{dims}, {back, placed}, {all_dx});
  if (gathers) last = a_.sum_members(all_dx, "dispatch_backward", dx);
  if (early) complete(last);
  if (s_.shared_ffn > 0 && !s_.branch_norms) last = shared_experts(d, dx);
  if (!s_.sequence_parallel) tensor_all_reduce(b_, s_, dx, "experts_dgrad", last);
  if (weights_here()) expert_weights();
  return dx;
}

/// Backward through the experts' two matrices. Returns the gradient of the rows as they were sent.
Value BlockBackward::expert_rows(const Value& drows) {
  const BlockActivations& a = a_;
  const std::int64_t rows = s_.expert_rows(), g = a.groups(), e = s_.experts_here, m = a.group_rows();
  Value here = a_.to_experts(drows, "drows");
  if (split()) {
    b_.add("drows_keep", copy_of(held_.expert_rows), {here}, {held_.expert_rows});
    here = held_.expert_rows;
  }
  expert_rows_ = here;
  const Value da = scratch(rows * s_.expert_ffn);
  b_.add("experts.fc2_dgrad", GroupedMatMul{g, e, m, s_.expert_ffn, s_.hidden, false, a.ragged()},
         a.with_counts({here, weights_.experts("experts.fc2.weight")}), {da});
  whole_adapters(a_.adapters("experts.fc2", s_.expert_ffn, s_.hidden), here, da, [&] { return a_.expert_activated({}); });
  const Value x = a_.expert_fc1({});
  expert_fc1_ = activation_backward("experts.activation", s_.expert_rows(), da, x, hold(held_.expert_fc1, x.elements));
  const Value dx = scratch(rows * s_.hidden);
  b_.add("experts.fc1_dgrad", GroupedMatMul{g, e, m, s_.hidden, s_.expert_fc1, false, a.ragged()},
         a.with_counts({expert_fc1_, weights_.experts("experts.fc1.weight")}), {dx});
  whole_adapters(a_.adapters("experts.fc1", s_.hidden, s_.expert_fc1), expert_fc1_, dx,
                 [&] { return a_.dispatched(a_.at().moe.dispatched.ready ? Value{} : expert_input()); });
  return a_.to_tokens(dx, "dispatch_backward");
}

std::uint16_t BlockBackward::shared_experts(const Value& own, const Value& dx) {
  const Summed part = shared_input(s_.shared_gate ? gate_gradient(own, dx) : own);
  return b_.add("add_shared_backward", Accumulate{dx.elements, dtype(), dtype()}, {part.value, dx}, {dx});
}

/// Gradient of the shared experts' input from that of their output: this rank's rows, or a partial sum over tensor ranks.
Summed BlockBackward::shared_input(const Value& own) {
  const std::int64_t t = s_.tokens, h = s_.hidden, f = s_.shared_ffn;
  const Value d = gathered(own, "mlp_gradient");
  if (s_.whole_modules && !s_.keep.shared_fc1) mlp_to_end("shared.fc2", f);
  const Value da = scratch(t * f), part = scratch(t * h);
  b_.add("shared.fc2_dgrad", MatMul{t, f, h, false, false, false}, {d, weights_.block("shared.fc2.weight")}, {da});
  if (weights_here()) fc2_weights(d, "shared.fc2");
  whole_adapters(a_.adapters("shared.fc2", f, h), d, da, [&] { return a_.activated(a_.at().activated.ready ? Value{} : mlp_input()); });
  const Value df = fc1_gradient(da);
  const std::string name = "shared.fc1";
  if (gathers_ahead(name)) mlp_input();
  const auto product = b_.add("shared.fc1_dgrad", MatMul{t, h, s_.shared_fc1, false, false, false},
                              {df, weights_.block("shared.fc1.weight")}, {part});
  through_adapters(a_.adapters(name, h, s_.shared_fc1), df, part);
  Summed sum{part, product};
  if (s_.sequence_parallel) {
    sum = tensor_sum(b_, s_, part, "shared.fc1_dgrad", product);
    reduced_ = sum.task;
    has_reduced_ = true;
  }
  if (weights_here()) fc1_weights(df, name);
  adapter_weights(a_.adapters(name, h, s_.shared_fc1), [&] { return mlp_input(); });
  return sum;
}

/// Output gradient of the shared experts before their gate; adds the gate's part to dx. Without
/// sequence parallelism both are partial sums over tensor ranks, as the shared experts' output is.
Value BlockBackward::gate_gradient(const Value& d, const Value& dx) {
  const std::int64_t rows = s_.rows, h = s_.hidden;
  const MoeSaved& m = a_.at().moe;
  const Value dshared = hold(held_.shared, rows * h), dgate = scratch(rows), more = rows_scratch();
  b_.add("shared.gate_backward", RowGateBackward{rows, h}, {d, m.shared, m.gate}, {dshared, dgate});
  b_.add("shared.gate_dgrad", MatMul{rows, h, 1, false, false, false}, {dgate, weights_.block("shared.gate.weight")}, {more});
  b_.add("add_shared_gate", Accumulate{dx.elements, dtype(), dtype()}, {more, dx}, {dx});
  if (frozen()) return dshared;
  GradientSink& early = early_sink();
  early.open("shared.gate.weight", "shared.gate.weight", gradient_type());
  b_.add("shared.gate_wgrad", MatMul{1, h, rows, true, false, false}, {dgate, expert_input()}, {early.part("shared.gate.weight")});
  early.close("shared.gate");
  return dshared;
}

Value BlockBackward::router(const Value& dweights) {
  const MoeSaved& m = a_.at().moe;
  const Value dlogits = split() ? held_.logits : b_.scratch(s_.numerics.router, s_.rows * s_.experts), dx = rows_scratch();
  std::vector<Value> in{dweights, m.probs, m.weights, m.slots, m.load.kept() ? m.load : m.counts, m.logits};
  std::vector<Value> out{dlogits};
  if (s_.routing.bias) in.push_back(weights_.block("router.balance"));
  const bool scales = s_.routing.expert_scale;
  if (scales && !frozen()) early_sink().open("expert_scale", "expert_scale", gradient_type());
  if (scales) {
    in.push_back(weights_.block("expert_scale"));
    out.push_back(frozen() ? b_.scratch(gradient_type(), s_.experts) : early_sink().part("expert_scale"));
  }
  b_.add("top_k_backward", TopKRouterBackward{s_.moe_dims(), s_.aux_loss, s_.routed_parts(), s_.routing, s_.z_loss}, std::move(in), std::move(out));
  if (scales && !frozen()) early_sink().close("expert_scale");
  b_.keep_wide(b_.add("router_dgrad", MatMul{s_.rows, s_.hidden, s_.experts, false, false, false},
                      {dlogits, weights_.block("router.weight")}, {dx}));
  if (weights_here()) router_weights(dlogits);
  return dx;
}

void BlockBackward::router_weights(const Value& dlogits) {
  sink_.open("router.weight", s_.routing.bias ? "router.balance" : s_.router_bias ? "router.bias" : "router.weight", gradient_type());
  b_.keep_wide(b_.add("router_wgrad", MatMul{s_.experts, s_.hidden, s_.rows, true, false, false}, {dlogits, router_input()},
                      {sink_.part("router.weight")}));
  if (s_.router_bias) b_.add("router_bias_grad", BiasGrad{s_.rows, s_.experts}, {dlogits}, {sink_.part("router.bias")});
  // Counts of this rank's tokens. Their sum over all ranks is the experts' load.
  if (s_.routing.bias)
    b_.add("router_balance_grad", BalanceGrad{s_.moe_dims(), s_.routed_parts()}, {a_.at().moe.counts}, {sink_.part("router.balance")});
  sink_.close("router");
}

void BlockBackward::expert_weights() {
  const MoeSaved& t = a_.at().moe;
  const Value input = t.dispatched.ready && t.activated.ready ? Value{} : expert_input();
  const Value activated = a_.expert_activated(input), rows = a_.dispatched(input);
  expert_matrix("experts.fc2", expert_rows_, activated, s_.hidden, s_.expert_ffn);
  expert_matrix("experts.fc1", expert_fc1_, rows, s_.expert_fc1, s_.hidden);
}

void BlockBackward::expert_matrix(const std::string& name, const Value& dy, const Value& x, std::int64_t n, std::int64_t k) {
  const BlockActivations& a = a_;
  const std::int64_t g = a.groups(), e = s_.experts_here, m = a.group_rows();
  const bool bias = expert_sink_.has(name + ".bias");
  expert_sink_.open(name + ".weight", bias ? name + ".bias" : name + ".weight", gradient_type());
  b_.add(name + "_wgrad", GroupedWeightGrad{g, e, m, n, k, a.ragged()}, a.with_counts({dy, x}),
         {expert_sink_.part(name + ".weight")});
  if (bias)
    b_.add(name + "_bias_grad", GroupedBiasGrad{g, e, m, n, a.ragged(), name == "experts.fc2" && s_.fusion.weighted_expert_bias}, a.with_counts({dy}),
           {expert_sink_.part(name + ".bias")});
  expert_sink_.close(name);
}

}  // namespace tandem::lowering
