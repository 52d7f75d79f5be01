// A mixture of experts in place of the MLP: router, dispatch, the experts' matrices. Experts are spread over the expert group
// and cut over tensor ranks like an MLP, or over `expert_tensor` neighbours of a stage. Under sequence parallelism a rank
// routes and sends its own rows. Ranks that share experts' matrices gather received rows before the products and scatter the
// sums after them, as Megatron-Core's MoEAlltoAllTokenDispatcher does. Without it every tensor rank has all tokens' rows. Under
// token_dispatcher allgather no rows travel: ranks gather all tokens, take the rows of their own experts, and scatter sums of
// their outputs, as its MoEAllGatherTokenDispatcher does.

#include "models/lowering/templates/block_activations.hpp"

namespace tandem::lowering {

std::vector<Value> BlockActivations::with_counts(std::vector<Value> operands) const {
  if (!ragged()) return operands;
  const MoeSaved& m = t_.moe;
  operands.push_back(s_.row_shares() > 1 ? m.gathered : s_.unequal_rows() ? m.arrived : m.counts);
  return operands;
}

void BlockActivations::route(const Value& input) {
  MoeSaved& m = t_.moe;
  const MoeDims d = s_.moe_dims();
  const DType type = s_.numerics.router;
  start(m.logits, d.tokens * d.experts, type);
  start(m.probs, d.tokens * d.experts, type);
  start(m.weights, d.tokens * d.top_k, type);
  std::vector<Value> in{input, w_.block("router.weight")};
  if (s_.router_bias) in.push_back(w_.block("router.bias"));
  b_.keep_wide(b_.add("router", MatMul{s_.rows, s_.experts, s_.hidden, false, true, s_.router_bias}, std::move(in), {m.logits}));
  std::vector<Value> scored{m.logits};
  if (s_.routing.bias) scored.push_back(w_.block("router.balance"));
  if (s_.routing.expert_scale) scored.push_back(w_.block("expert_scale"));
  b_.add("top_k", TopKRouter{s_.moe_dims(), s_.routing}, std::move(scored), {m.probs, m.weights, m.slots, m.counts});
  if (s_.gathers_tokens()) place_choices();
  else if (s_.unequal_rows())
    b_.add("counts_all_to_all",
           Collective{CollectiveKind::all_to_all, Group::expert, m.counts.elements, DType::int32, Reduce::sum}, {m.counts},
           {m.arrived}, Stream::tensor);
  if (m.gathered.kept() && !s_.gathers_tokens())
    b_.add("counts_all_gather", Collective{CollectiveKind::all_gather, s_.row_group(), m.gathered.elements, DType::int32},
           {s_.unequal_rows() ? m.arrived : m.counts}, {m.gathered}, Stream::tensor);
  if (!m.load.kept()) return;
  b_.add("load", copy_of(m.load), {m.counts}, {m.load});
  b_.add("load_all_reduce", Collective{CollectiveKind::all_reduce, Group::tensor, m.load.elements, DType::int32}, {m.load},
         {m.load}, Stream::tensor);
}

void BlockActivations::place_choices() {
  MoeSaved& m = t_.moe;
  const MoeDims all = s_.dispatch_dims(), own = s_.moe_dims();
  gather_members(m.weights, "weights", start(m.all_weights, all.tokens * all.top_k, m.weights.dtype));
  const Value slots = of_members(m.slots, "slots"), counts = of_members(m.counts, "counts");
  MoeDims of_one = all;
  of_one.tokens = own.tokens;
  b_.add("place_choices", ExpertSlots{of_one, s_.members()}, {slots, counts}, {m.placed, s_.row_shares() > 1 ? m.gathered : m.arrived});
}

void BlockActivations::gather_members(const Value& v, const std::string& name, const Value& all) {
  const std::int64_t shares = s_.row_shares();
  Value part = v;
  if (s_.expert_ranks > 1) {
    const Value to = shares > 1 ? all.share(s_.row_group(), shares) : all;
    b_.add(name + "_all_gather", Collective{CollectiveKind::all_gather, Group::expert, to.elements, v.dtype}, {v}, {to}, Stream::tensor);
    part = to;
  }
  if (shares > 1)
    b_.add(name + "_share_all_gather", Collective{CollectiveKind::all_gather, s_.row_group(), all.elements, v.dtype}, {part}, {all},
           Stream::tensor);
}

std::uint16_t BlockActivations::sum_members(const Value& all, const std::string& name, const Value& to) {
  const std::int64_t shares = s_.row_shares();
  Value part = all;
  std::uint16_t last = 0;
  if (shares > 1) {
    part = s_.expert_ranks > 1 ? all.share(s_.row_group(), shares) : to;
    last = b_.add(name + "_share_reduce_scatter", Collective{CollectiveKind::reduce_scatter, s_.row_group(), all.elements, all.dtype}, {all},
           {part}, Stream::tensor);
  }
  if (s_.expert_ranks > 1)
    last = b_.add(name + "_reduce_scatter", Collective{CollectiveKind::reduce_scatter, Group::expert, part.elements, all.dtype}, {part},
                  {to}, Stream::tensor);
  return last;
}

Value BlockActivations::of_members(const Value& v, const std::string& name) {
  if (!s_.gathers_tokens()) return v;
  const Value all = b_.scratch(v.dtype, s_.members() * v.elements);
  gather_members(v, name, all);
  return all;
}

/// Exchanges rows over the expert group (all-to-all).
void BlockActivations::exchange(const Value& v, Way way, const std::string& name, const Value& to) {
  const bool there = way == Way::to_experts;
  Collective op{CollectiveKind::all_to_all, Group::expert, s_.moe_dims().rows() * s_.hidden, v.dtype, Reduce::sum};
  op.copies = s_.copies;
  if (!there) op.copies.dtype = v.dtype;
  std::vector<Value> in{v};
  if (s_.unequal_rows()) {
    op.row = s_.hidden;
    op.back = !there;
    const Value &mine = t_.moe.counts, &theirs = t_.moe.arrived;
    in.insert(in.end(), {there ? mine : theirs, there ? theirs : mine});
  }
  b_.add(name + "_all_to_all", op, std::move(in), {to}, Stream::tensor);
}

/// Gathers or scatters rows over the ranks that share experts' matrices.
void BlockActivations::over_row_shares(CollectiveKind kind, const Value& v, const std::string& name, const Value& to) {
  Collective op{kind, s_.row_group(), s_.planned_expert_rows() * s_.hidden, v.dtype, Reduce::sum};
  std::vector<Value> in{v};
  if (s_.unequal_rows()) {
    op.row = s_.hidden;
    in.push_back(t_.moe.gathered);
  }
  b_.add(name, op, std::move(in), {to}, Stream::tensor);
}

/// Place of the rows that this rank's exchange receives: among the gathered ones, if these have a place.
Value BlockActivations::own_rows(const Value& all) {
  return s_.unequal_rows() ? arrivals(all.dtype) : all.share(s_.row_group(), s_.row_shares());
}

Value BlockActivations::to_experts(const Value& sent, const std::string& name, Value all) {
  if (!rows_travel()) return sent;
  if (all.elements == 0) all = b_.scratch(sent.dtype, s_.expert_rows() * s_.hidden);
  const bool shares = s_.row_shares() > 1;
  Value own = sent;
  // Rows travel in their own type, even if the product stores a narrower input.
  const auto here = [&] { return sent.dtype == all.dtype ? own_rows(all) : arrivals(sent.dtype); };
  if (s_.expert_ranks > 1) exchange(sent, Way::to_experts, name, own = shares ? here() : all);
  if (shares) over_row_shares(CollectiveKind::all_gather, own, name + "_all_gather", all);
  return all;
}

Value BlockActivations::to_tokens(const Value& made, const std::string& name, Value to) {
  if (!rows_travel()) return made;
  if (to.elements == 0) to = b_.scratch(made.dtype, s_.moe_dims().rows() * s_.hidden);
  Value own = made;
  if (s_.row_shares() > 1)
    over_row_shares(CollectiveKind::reduce_scatter, made, name + "_reduce_scatter",
                      own = s_.expert_ranks > 1 ? own_rows(made) : to);
  if (s_.expert_ranks > 1) exchange(own, Way::to_tokens, name, to);
  return to;
}

Value BlockActivations::dispatched(const Value& input) {
  Kept& t = t_.moe.dispatched;
  if (t.ready) return t;
  const Value rows = start(t, s_.expert_rows() * s_.hidden);
  const Value sent = rows_travel() ? b_.scratch(s_.dtypes.compute, s_.moe_dims().rows() * s_.hidden) : rows;
  std::vector<Value> in{of_members(input, "tokens"), placed()};
  if (s_.weigh_inputs) in.push_back(choice_weights());
  b_.add("dispatch", MoeDispatch{s_.dispatch_dims(), s_.weigh_inputs}, std::move(in), {sent});
  return to_experts(sent, "dispatch", rows);
}

Value BlockActivations::expert_fc1(const Value& input) {
  Kept& t = t_.moe.fc1;
  const Value x = t.ready ? Value{} : dispatched(input);
  return activation_input(t, expert_fc1_wide_, s_.expert_rows() * s_.expert_fc1, "experts.fc1", [&](const Value& y) {
    hold_wide(b_.add("experts.fc1",
                     GroupedMatMul{groups(), s_.experts_here, group_rows(), s_.expert_fc1, s_.hidden, true, ragged()},
                     with_counts({x, w_.experts("experts.fc1.weight")}), {y}),
              x);
    if (s_.linear_bias)
      b_.add("experts.fc1_bias", GroupedBias{groups(), s_.experts_here, group_rows(), s_.expert_fc1, false, ragged()},
             with_counts({y, w_.experts("experts.fc1.bias")}), {y});
    adapt("experts.fc1", x, s_.hidden, s_.expert_fc1, y);
  });
}

Value BlockActivations::expert_activated(const Value& input) {
  Kept& t = t_.moe.activated;
  if (t.ready) return t;
  const Value x = expert_fc1(input), y = start(t, s_.expert_rows() * s_.expert_ffn);
  const std::int64_t rows = s_.expert_rows();
  const Op op = s_.gated ? Op(GatedPointwise{rows, s_.expert_ffn, s_.gate})
                         : Op(Pointwise{rows * s_.expert_ffn, s_.activation});
  b_.add("experts.activation", op, {x}, {y});
  return y;
}

void BlockActivations::experts_return(const Value& input) {
  const Value a = expert_activated(input), back = start(t_.moe.returned, s_.dispatch_dims().rows() * s_.hidden);
  const Value made = rows_travel() ? b_.scratch(s_.dtypes.compute, s_.expert_rows() * s_.hidden) : back;
  hold_wide(b_.add("experts.fc2",
                   GroupedMatMul{groups(), s_.experts_here, group_rows(), s_.hidden, s_.expert_ffn, true, ragged()},
                   with_counts({a, w_.experts("experts.fc2.weight")}), {made}),
            a);
  if (s_.linear_bias)
    b_.add("experts.fc2_bias", GroupedBias{groups(), s_.experts_here, group_rows(), s_.hidden, true, ragged(), s_.fusion.weighted_expert_bias},
           with_counts({made, w_.experts("experts.fc2.bias")}), {made});
  adapt("experts.fc2", a, s_.expert_ffn, s_.hidden, made);
  to_tokens(made, "return", back);
}

std::uint16_t BlockActivations::combine(const Value& out) {
  std::vector<Value> in{t_.moe.returned, placed()};
  if (!s_.weigh_inputs) in.push_back(choice_weights());
  const MoeDims d = s_.dispatch_dims();
  const Value all = s_.gathers_tokens() ? b_.scratch(out.dtype, d.tokens * d.hidden) : out;
  const std::uint16_t last = b_.add("combine", MoeCombine{d, !s_.weigh_inputs}, std::move(in), {all});
  return s_.gathers_tokens() ? sum_members(all, "combine", out) : last;
}

Value BlockActivations::gate_shared(const Value& x, const Value& input) {
  const Value gate = start(t_.moe.gate, s_.rows), y = b_.scratch(s_.dtypes.compute, x.elements);
  b_.add("shared.gate", MatMul{s_.rows, 1, s_.hidden, false, true, false}, {input, w_.block("shared.gate.weight")}, {gate});
  b_.add("gate_shared", RowGate{s_.rows, s_.hidden}, {x, gate}, {y});
  return y;
}

}  // namespace tandem::lowering
