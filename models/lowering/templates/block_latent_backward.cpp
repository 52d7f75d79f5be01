// Backward pass of latent attention, from the gradient of qkv before the rotary embedding.

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {

Value BlockBackward::latent_input(const Value& dqkv, const Value& to) {
  const LatentHeads heads = s_.latent_heads();
  const std::int64_t n = s_.tokens;
  const Value dq = hold(held_.q_up, n * s_.queries()), dkv = hold(held_.kv_up, n * s_.latent_kv()),
              dturned = scratch(n * s_.rotary_dim);
  b_.add("latent_heads_backward", LatentHeadsBackward{heads.dims, heads.turned, heads.query_scale}, {dqkv}, {dq, dkv, dturned});
  const Value dx = latent_queries(dq, to), more = latent_kv(dkv, dturned);
  b_.add("add_kv_gradient", Accumulate{dx.elements, dtype(), dtype()}, {more, dx}, {dx});
  return dx;
}

/// The queries' part of the input gradient, this rank's rows.
Value BlockBackward::latent_queries(const Value& dq, const Value& to) {
  const std::int64_t rank = s_.latent.query_rank, rows = s_.rows, n = s_.tokens, h = s_.hidden;
  if (gathers_ahead()) a_.latent_queries(x_.state);
  if (rank == 0) {
    const Value dx = sum_input("q_up", dq, s_.queries(), to);
    if (weights_here()) latent_weight("q_up", dq, a_.latent_queries(x_.state), s_.queries());
    return dx;
  }
  const LatentSaved& t = a_.at().latent;
  const Value part = scratch(n * rank);
  const auto product = b_.add("q_up_dgrad", MatMul{n, rank, s_.queries()}, {dq, weights_.block("q_up.weight")}, {part});
  const Value dlatent = summed(tensor_sum(b_, s_, part, "q_up_dgrad", product));
  if (weights_here()) latent_weight("q_up", dq, a_.latent_queries(x_.state), s_.queries());
  const Value down = hold(held_.q_down, rows * rank), dx = to.elements > 0 ? to : rows_scratch();
  GradientSink& early = early_sink();
  early.open("q_latent_norm.weight", "q_latent_norm.weight", gradient_type());
  b_.add("q_latent_norm_backward", LayerNormBackward{rows, rank, false, true},
         {dlatent, t.q_down, t.q_stats, weights_.block("q_latent_norm.weight")}, {down, early.part("q_latent_norm.weight")});
  early.close("q_latent_norm");
  b_.add("q_down_dgrad", MatMul{rows, h, rank}, {down, weights_.block("q_down.weight")}, {dx});
  if (weights_here()) latent_weight("q_down", down, a_.own_input(1, x_.state), rank);
  return dx;
}

/// The keys' and values' part of the input gradient.
Value BlockBackward::latent_kv(const Value& dkv, const Value& dturned) {
  const std::int64_t rank = s_.latent.kv_rank, rest = s_.rotary_dim, rows = s_.rows, n = s_.tokens;
  const LatentSaved& t = a_.at().latent;
  const Value part = scratch(n * rank);
  const auto product = b_.add("kv_up_dgrad", MatMul{n, rank, s_.latent_kv()}, {dkv, weights_.block("kv_up.weight")}, {part});
  if (gathers_ahead()) a_.latent_kv(x_.state);
  const Value dlatent = tensor_sum(b_, s_, part, "kv_up_dgrad", product).value;
  b_.collectives_in_pieces(false);  // it follows no product
  const Value dcommon = summed(tensor_sum(b_, s_, dturned, "k_turned_dgrad", product));
  b_.collectives_in_pieces(s_.tensor_overlap);
  if (weights_here()) latent_weight("kv_up", dkv, a_.latent_kv(x_.state), s_.latent_kv());
  const Value down = hold(held_.kv_down, rows * (rank + rest)), dx = rows_scratch();
  GradientSink& early = early_sink();
  early.open("kv_latent_norm.weight", "kv_latent_norm.weight", gradient_type());
  b_.add("kv_latent_norm_backward", LatentNormBackward{rows, rank, rest},
         {dlatent, dcommon, t.kv_down, t.kv_stats, weights_.block("kv_latent_norm.weight")},
         {down, early.part("kv_latent_norm.weight")});
  early.close("kv_latent_norm");
  b_.add("kv_down_dgrad", MatMul{rows, s_.hidden, rank + rest}, {down, weights_.block("kv_down.weight")}, {dx});
  if (weights_here()) latent_weight("kv_down", down, a_.own_input(1, x_.state), rank + rest);
  return dx;
}

void BlockBackward::latent_weights() {
  const std::int64_t rank = s_.latent.query_rank;
  latent_weight("q_up", held_.q_up, a_.latent_queries(x_.state), s_.queries());
  if (rank > 0) latent_weight("q_down", held_.q_down, a_.own_input(1, x_.state), rank);
  latent_weight("kv_up", held_.kv_up, a_.latent_kv(x_.state), s_.latent_kv());
  latent_weight("kv_down", held_.kv_down, a_.own_input(1, x_.state), s_.latent.kv_rank + s_.rotary_dim);
}

void BlockBackward::latent_weight(const std::string& name, const Value& dy, const Value& x, std::int64_t width) {
  column_weights(name, dy, x, width);
  sink_.close(name);
}

}  // namespace tandem::lowering
