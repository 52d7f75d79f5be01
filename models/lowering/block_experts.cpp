// A mixture of experts in place of the MLP: router, dispatch, the experts' matrices. Tokens are whole on every tensor rank;
// experts are cut over tensor ranks like an MLP and spread over the expert group.

#include "models/lowering/block_activations.hpp"

namespace tandem::lowering {

std::vector<Value> BlockActivations::with_counts(std::vector<Value> operands) const {
  if (ragged()) operands.push_back(t_.moe.counts);
  return operands;
}

void BlockActivations::route(const Value& input) {
  MoeSaved& m = t_.moe;
  b_.add("router", MatMul{s_.tokens, s_.experts, s_.hidden, false, true, false}, {input, w_.block("router.weight")},
         {m.logits});
  b_.add("top_k", TopKRouter{s_.moe_dims()}, {m.logits}, {m.probs, m.weights, m.slots, m.counts});
}

Value BlockActivations::exchange(const Value& v, const std::string& name) {
  if (s_.expert_ranks == 1) return v;
  const Value out = b_.scratch(v.dtype, v.elements);
  b_.add(name + "_all_to_all", Collective{CollectiveKind::all_to_all, Group::expert, v.elements, v.dtype, Reduce::sum}, {v},
         {out}, Stream::tensor);
  return out;
}

Value BlockActivations::dispatched(const Value& input) {
  Kept& t = t_.moe.dispatched;
  if (t.ready) return t;
  const Value rows = start(t, s_.moe_dims().rows() * s_.hidden);
  const bool alone = s_.expert_ranks == 1;
  const Value sent = alone ? rows : b_.scratch(s_.dtypes.compute, rows.elements);
  b_.add("dispatch", MoeDispatch{s_.moe_dims()}, {input, t_.moe.slots}, {sent});
  if (!alone)
    b_.add("dispatch_all_to_all",
           Collective{CollectiveKind::all_to_all, Group::expert, rows.elements, rows.dtype, Reduce::sum}, {sent}, {rows},
           Stream::tensor);
  return rows;
}

Value BlockActivations::expert_fc1(const Value& input) {
  Kept& t = t_.moe.fc1;
  if (t.ready) return t;
  const Value x = dispatched(input), y = start(t, s_.moe_dims().rows() * s_.expert_fc1);
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
  const Value x = expert_fc1(input), y = start(t, s_.moe_dims().rows() * s_.expert_ffn);
  const std::int64_t rows = s_.moe_dims().rows();
  const Op op = s_.gated ? Op(GatedPointwise{rows, s_.expert_ffn, s_.gate})
                         : Op(Pointwise{rows * s_.expert_ffn, s_.activation});
  b_.add("experts.activation", op, {x}, {y});
  return y;
}

void BlockActivations::experts_return(const Value& input) {
  const Value a = expert_activated(input), back = t_.moe.returned;
  const bool alone = s_.expert_ranks == 1;
  const Value made = alone ? back : b_.scratch(s_.dtypes.compute, back.elements);
  b_.add("experts.fc2",
         GroupedMatMul{groups(), s_.experts_here, group_rows(), s_.hidden, s_.expert_ffn, true, ragged()},
         with_counts({a, w_.experts("experts.fc2.weight")}), {made});
  if (s_.linear_bias)
    b_.add("experts.fc2_bias", GroupedBias{groups(), s_.experts_here, group_rows(), s_.hidden, true, ragged()},
           with_counts({made, w_.experts("experts.fc2.bias")}), {made});
  if (!alone)
    b_.add("return_all_to_all",
           Collective{CollectiveKind::all_to_all, Group::expert, back.elements, back.dtype, Reduce::sum}, {made}, {back},
           Stream::tensor);
  t_.moe.returned.ready = true;
}

}  // namespace tandem::lowering
