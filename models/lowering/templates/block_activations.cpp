#include "models/lowering/templates/block_activations.hpp"

#include <algorithm>

#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {

Value BlockActivations::start(Kept& t, std::int64_t elements) { return start(t, elements, s_.dtypes.compute); }

Value BlockActivations::start(Kept& t, std::int64_t elements, DType dtype) {
  if (!t.kept()) static_cast<Value&>(t) = b_.scratch(dtype, elements);
  t.ready = true;
  return t;
}

BlockActivations::InputNorm BlockActivations::input_norm(int which) {
  switch (which) {
    case 1: return {"ln1", t_.n1, t_.ln1_stats};
    case 2: return {"ln2", t_.n2, t_.ln2_stats};
    case 3: return {"experts_ln", t_.moe.n, t_.moe.n_stats};
    default: return {"router_norm", t_.moe.router_n, t_.moe.router_stats};
  }
}

Value BlockActivations::own_input(int which, const Value& x) {
  if (!norms_inputs()) return x;
  const auto [name, n, stats] = input_norm(which);
  if (!n.ready) {
    // A router's input is wide. A norm whose output only a product reads writes the product's stored input type.
    const bool routed = which > 1 && w_.block.layout().has("router.weight");
    start(n, s_.rows * s_.hidden, routed ? s_.dtypes.compute : s_.kept_input());
    // Recomputation writes the same statistics again.
    norm(b_, s_, name, x, norm_params(s_, name, [&](const std::string& at) { return w_.vector(at); }), {n, stats});
  }
  return n;
}

Value BlockActivations::input(int which, const Value& x) {
  const std::string at = which == 1 ? "1" : "2";
  Value& all = input_[which - 1];
  if (all.elements > 0) return all;
  Kept& kept = which == 1 ? t_.all1 : t_.all2;
  if (kept.ready) return all = kept;
  all = tensor_gather(b_, s_, own_input(which, x), norms_inputs() ? "ln" + at : which == 1 ? "attention_input" : "mlp_input", kept);
  kept.ready = kept.kept();
  return all;
}

Value BlockActivations::matrix(const std::string& name, const std::string& part) {
  const std::string parameter = name + ".weight";
  if (w_.quantized.whole().elements == 0 || !w_.quantized.layout().has(parameter)) return w_.block(parameter);
  const Value stored = w_.quantized(parameter), wide = b_.scratch(s_.dtypes.compute, stored.elements);
  b_.add(name + part + "_dequantize", Dequantize{stored.elements, stored.dtype, wide.dtype}, {stored}, {wide});
  return wide;
}

void BlockActivations::column(const std::string& name, const Value& x, std::int64_t width, const Value& y,
                              const std::string& part) {
  std::vector<Value> in{x, matrix(name, part)};
  const bool later = name.ends_with("fc1") && activation_bias("activation").elements > 0;
  const bool bias = !later && w_.block.layout().has(name + ".bias");
  if (bias) in.push_back(w_.block(name + ".bias"));
  const std::int64_t rows = y.elements / width;
  MatMul op{rows, width, x.elements / rows, false, true, bias};
  op.blocks = s_.blocks_of(name);
  b_.add(name + part, op, std::move(in), {y});
  adapt(name, x, op.k, width, y);
}

bool BlockActivations::adapter_reads(std::string_view name) const {
  return std::any_of(t_.adapters.begin(), t_.adapters.end(), [&](const auto& at) {
    const bool mine = at.first == name || at.first.starts_with(std::string(name) + ".");
    return mine && !at.second.dropped.ready;
  });
}

std::vector<AdapterAt> BlockActivations::adapters(const std::string& name, std::int64_t in, std::int64_t out) const {
  const bool experts = name.starts_with("experts.");
  const RegionValues& values = experts ? w_.expert_adapters : w_.adapters;
  std::vector<AdapterAt> all;
  for (const AdapterPlace& place : adapters_of(s_, name, out)) {
    AdapterAt at{place, s_, in, values(place.name + std::string(kAdapterA)), values(place.name + std::string(kAdapterB))};
    if (experts) at.experts = {groups(), s_.experts_here, group_rows(), ragged()};
    if (experts && ragged()) at.experts.counts = with_counts({}).front();
    all.push_back(at);
  }
  return all;
}

Value BlockActivations::adapter_input_of(const AdapterAt& at, const Value& x) {
  if (!at.drops()) return x;
  Kept& dropped = adapter_place(at.name).dropped;
  if (!dropped.ready) adapter_dropout(b_, at, x, start(dropped, x.elements));
  return dropped;
}

void BlockActivations::adapt(const std::string& name, const Value& x, std::int64_t in, std::int64_t out, const Value& y) {
  for (const AdapterAt& at : adapters(name, in, out)) {
    Kept& u = adapter_place(at.name).inner;
    if (!u.ready) adapter_inner(b_, at, adapter_input_of(at, x), start(u, x.elements / in * at.rank()));
    adapter_output(b_, at, u, y);
  }
}

Value BlockActivations::activation_bias(const std::string& name) const {
  if (!s_.fusion.bias_activation || s_.gated || name != "activation") return {};
  for (const std::string bias : {"fc1.bias", "shared.fc1.bias"})
    if (w_.block.layout().has(bias)) return w_.vector(bias);
  return {};
}

void BlockActivations::need_state(const Value& x) {
  if (t_.x2.ready) return;
  const std::int64_t n = s_.rows, h = s_.hidden;
  const Value from = mixed(), out = b_.scratch(s_.dtypes.compute, n * h);
  b_.add("proj", MatMul{n, h, s_.attention, false, true, false}, {from, matrix("proj")}, {out});
  add_to({DropoutSite::attention_output, "attention_add", "proj.bias"}, out, x, state_place());
}

void BlockActivations::add_to(const ResidualAdd& add, const Value& x, const Value& residual, const Value& y) {
  const bool scales = s_.residual_scale != 1, has_bias = w_.block.layout().has(add.bias), bias = has_bias && !scales;
  if (scales) {
    Elementwise op = residual_scale(s_);
    if (has_bias) op.kind = ElementwiseKind::add, op.other = Spread::column;
    b_.add(add.name + "_scale", op, has_bias ? std::vector<Value>{x, w_.block(add.bias)} : std::vector<Value>{x}, {x});
  }
  std::vector<Value> in{x};
  if (bias) in.push_back(w_.block(add.bias));
  in.push_back(residual);
  b_.add(add.name, BiasDropoutAdd{s_.rows, s_.hidden, s_.hidden_dropout, bias, add.site, s_.sequence_parallel}, std::move(in), {y});
}

bool BlockActivations::fc1_ready() const {
  return t_.fc1.ready && t_.fc1.elements + fc1_rest_.elements == s_.tokens * fc1_width();
}

Value BlockActivations::activation_input(Kept& t, Value& wide, std::int64_t elements, const std::string& name,
                                         const std::function<void(const Value&)>& product) {
  const bool narrow = t.kept() && t.dtype != s_.dtypes.compute;
  const auto cast = [&](const char* way, const Value& from, const Value& to) {
    b_.add(name + way, Accumulate{elements, from.dtype, to.dtype, true}, {from}, {to});
  };
  if (!narrow) {
    if (!t.ready) product(start(t, elements));
    return t;
  }
  if (wide.elements > 0) return wide;
  wide = b_.scratch(s_.dtypes.compute, elements);
  if (t.ready) cast("_widen", t, wide);
  else product(wide), cast("_narrow", wide, start(t, elements));
  return wide;
}

std::vector<Value> BlockActivations::fc1(const Value& input) {
  const std::int64_t width = fc1_width(), kept = t_.fc1.kept() ? t_.fc1.elements / width : s_.tokens, rest = s_.tokens - kept;
  const std::string name = has_mlp() ? "fc1" : "shared.fc1";
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return rest == 0 ? input : input.part(first * s_.hidden, count * s_.hidden);
  };
  const Value first = activation_input(t_.fc1, fc1_wide_, kept * width, name,
                                       [&](const Value& y) { column(name, rows(0, kept), width, y); });
  if (rest == 0) return {first};
  if (fc1_rest_.elements == 0) {
    fc1_rest_ = b_.scratch(s_.dtypes.compute, rest * width);
    column(name, rows(kept, rest), width, fc1_rest_, "_rest");
  }
  return {first, fc1_rest_};
}

Value BlockActivations::activated(const Value& input) {
  if (t_.activated.ready) return t_.activated;
  const std::vector<Value> pieces = fc1(input);
  const std::int64_t width = fc1_width() / (s_.gated ? 2 : 1);
  const Value y = start(t_.activated, s_.tokens * width);
  const Value bias = activation_bias("activation");
  std::int64_t row = 0;
  for (const Value& x : pieces) {
    const std::int64_t rows = x.elements / fc1_width();
    const Op op = s_.gated ? Op(GatedPointwise{rows, width, s_.gate}) : Op(Pointwise{rows * width, s_.activation, bias.elements});
    std::vector<Value> in{x};
    if (bias.elements > 0) in.push_back(bias);
    const Value part = pieces.size() == 1 ? y : y.part(row * width, rows * width);
    b_.add(row == 0 ? "activation" : "activation_rest", op, std::move(in), {part});
    row += rows;
  }
  return y;
}

}  // namespace tandem::lowering
