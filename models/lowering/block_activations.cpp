#include "models/lowering/block_activations.hpp"

#include "models/lowering/tensor_parallel.hpp"

namespace tandem::lowering {

Value BlockActivations::start(Kept& t, std::int64_t elements) {
  if (!t.kept()) static_cast<Value&>(t) = b_.scratch(s_.dtypes.compute, elements);
  t.ready = true;
  return t;
}

Value BlockActivations::own_input(int which, const Value& x) {
  if (s_.placement != NormPlacement::pre) return x;
  const std::string name = which == 1 ? "ln1" : "ln2";
  Kept &n = which == 1 ? t_.n1 : t_.n2, &stats = which == 1 ? t_.ln1_stats : t_.ln2_stats;
  if (!n.ready) {
    start(n, s_.rows * s_.hidden);
    // Computed again, the statistics are written again with the same values.
    norm(b_, s_, name, x, norm_params(s_, name, w_.block), {n, stats});
  }
  return n;
}

Value BlockActivations::input(int which, const Value& x) {
  const std::string at = which == 1 ? "1" : "2";
  Value& all = input_[which - 1];
  if (all.elements == 0)
    all = tensor_gather(b_, s_, own_input(which, x),
                        s_.placement == NormPlacement::pre ? "ln" + at : which == 1 ? "attention_input" : "mlp_input");
  return all;
}

void BlockActivations::column(const std::string& name, const Value& x, std::int64_t width, const Value& y) {
  std::vector<Value> in{x, w_.block(name + ".weight")};
  const bool later = name.ends_with("fc1") && activation_bias("activation").elements > 0;
  const bool bias = !later && w_.block.layout().has(name + ".bias");
  if (bias) in.push_back(w_.block(name + ".bias"));
  b_.add(name, MatMul{x.elements / s_.hidden, width, s_.hidden, false, true, bias}, std::move(in), {y});
}

Value BlockActivations::activation_bias(const std::string& name) const {
  if (!s_.fusion.bias_activation || s_.gated || name != "activation") return {};
  for (const std::string bias : {"fc1.bias", "shared.fc1.bias"})
    if (w_.block.layout().has(bias)) return w_.block(bias);
  return {};
}

Value BlockActivations::fc1(const Value& input) {
  if (t_.fc1.ready) return t_.fc1;
  const bool shared = s_.shared_ffn > 0 && !w_.block.layout().has("fc1.weight");
  const std::int64_t width = shared ? s_.shared_fc1 : s_.fc1;
  const Value y = start(t_.fc1, s_.tokens * width);
  column(shared ? "shared.fc1" : "fc1", input, width, y);
  return y;
}

Value BlockActivations::activated(const Value& input) {
  if (t_.activated.ready) return t_.activated;
  const Value x = fc1(input);
  const std::int64_t width = x.elements / s_.tokens / (s_.gated ? 2 : 1);
  const Value y = start(t_.activated, s_.tokens * width);
  const Value bias = activation_bias("activation");
  const Op op = s_.gated ? Op(GatedPointwise{s_.tokens, width, s_.gate})
                         : Op(Pointwise{s_.tokens * width, s_.activation, bias.elements});
  std::vector<Value> in{x};
  if (bias.elements > 0) in.push_back(bias);
  b_.add("activation", op, std::move(in), {y});
  return y;
}

}  // namespace tandem::lowering
