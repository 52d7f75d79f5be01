// A mixture of experts in place of the MLP: router, dispatch, the experts' matrices. Tokens are whole on every tensor rank;
// experts are cut over tensor ranks like an MLP and spread over the expert group.

#include "models/lowering/block_activations.hpp"

namespace tandem::lowering {

std::vector<Value> BlockActivations::with_counts(std::vector<Value> operands) const {
  if (ragged()) operands.push_back(s_.unequal_rows() ? t_.moe.arrived : t_.moe.counts);
  return operands;
}

void BlockActivations::route(const Value& input) {
  MoeSaved& m = t_.moe;
  b_.keep_wide(b_.add("router", MatMul{s_.tokens, s_.experts, s_.hidden, false, true, false},
                      {input, w_.block("router.weight")}, {m.logits}));
  b_.add("top_k", TopKRouter{s_.moe_dims()}, {m.logits}, {m.probs, m.weights, m.slots, m.counts});
  if (s_.unequal_rows())
    b_.add("counts_all_to_all",
           Collective{CollectiveKind::all_to_all, Group::expert, m.counts.elements, DType::int32, Reduce::sum}, {m.counts},
           {m.arrived}, Stream::tensor);
}

Value BlockActivations::exchange(const Value& v, Way way, const std::string& name, Value to) {
  if (s_.expert_ranks == 1) return v;
  const bool there = way == Way::to_experts;
  const std::int64_t sent = s_.moe_dims().rows() * s_.hidden;
  if (to.elements == 0) to = b_.scratch(v.dtype, there ? s_.expert_rows() * s_.hidden : sent);
  Collective op{CollectiveKind::all_to_all, Group::expert, sent, v.dtype, Reduce::sum};
  std::vector<Value> in{v};
  if (s_.unequal_rows()) {
    op.row = s_.hidden;
    op.back = !there;
    const Value &mine = t_.moe.counts, &theirs = t_.moe.arrived;
    in.insert(in.end(), {there ? mine : theirs, there ? theirs : mine});
  }
  b_.add(name + "_all_to_all", op, std::move(in), {to}, Stream::tensor);
  return to;
}

Value BlockActivations::dispatched(const Value& input) {
  Kept& t = t_.moe.dispatched;
  if (t.ready) return t;
  const Value rows = start(t, s_.expert_rows() * s_.hidden);
  const Value sent = s_.expert_ranks == 1 ? rows : b_.scratch(s_.dtypes.compute, s_.moe_dims().rows() * s_.hidden);
  b_.add("dispatch", MoeDispatch{s_.moe_dims()}, {input, t_.moe.slots}, {sent});
  exchange(sent, Way::to_experts, "dispatch", rows);
  return rows;
}

Value BlockActivations::expert_fc1(const Value& input) {
  Kept& t = t_.moe.fc1;
  if (t.ready) return t;
  const Value x = dispatched(input), y = start(t, s_.expert_rows() * s_.expert_fc1);
  b_.add("experts.fc1",
         GroupedMatMul{groups(), s_.experts_here, group_rows(), s_.expert_fc1, s_.hidden, true, ragged()},
         with_counts({x, w_.experts("experts.fc1.weight")}), {y});
  if (s_.linear_bias)
    b_.add("experts.fc1_bias", GroupedBias{groups(), s_.experts_here, group_rows(), s_.expert_fc1, false, ragged()},
           with_counts({y, w_.experts("experts.fc1.bias")}), {y});
  return y;
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
  const Value a = expert_activated(input), back = t_.moe.returned;
  const Value made = s_.expert_ranks == 1 ? back : b_.scratch(s_.dtypes.compute, s_.expert_rows() * s_.hidden);
  b_.add("experts.fc2",
         GroupedMatMul{groups(), s_.experts_here, group_rows(), s_.hidden, s_.expert_ffn, true, ragged()},
         with_counts({a, w_.experts("experts.fc2.weight")}), {made});
  if (s_.linear_bias)
    b_.add("experts.fc2_bias", GroupedBias{groups(), s_.experts_here, group_rows(), s_.hidden, true, ragged()},
           with_counts({made, w_.experts("experts.fc2.bias")}), {made});
  exchange(made, Way::to_tokens, "return", back);
  t_.moe.returned.ready = true;
}

}  // namespace tandem::lowering
