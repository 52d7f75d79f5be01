#pragma once
// Writes the backward pass of a block, mirroring BlockForward: whole, or as the two halves of a zero-bubble schedule (arXiv
// 2401.10241): the gradient of the input, and later the gradients of the matrices.

#include <functional>
#include <optional>

#include "models/lowering/templates/block_deferred.hpp"
#include "models/lowering/templates/block_frame.hpp"
#include "models/lowering/templates/gradient_sink.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {

class BlockBackward {
 public:
  BlockBackward(const Shapes& s, const BlockBackwardKind& kind);
  Template write();

 private:
  using Part = BackwardPart;

  GradientSink sink(std::string name, const RegionLayout& layout);
  BlockDeferred deferred(std::uint16_t slot) const { return {s_, slot, regions_}; }
  bool inputs() const { return kind_.part != Part::weights; }
  bool frozen() const { return s_.adapters.here(); }
  /// Whether this half computes gradients of the model's own matrices.
  bool weights_here() const { return kind_.part != Part::input && !frozen(); }
  /// Whether the input of product `name` is gathered early, so that its weight gradients run while the input gradient is summed.
  bool gathers_ahead(std::string_view name = {}) {
    return (weights_here() || a_.adapter_reads(name)) && s_.sum_beside_weights && s_.sequence_parallel;
  }
  bool split() const { return kind_.part != Part::whole; }
  /// Whether the first half stores its gradients for the second half, which starts the micro-batch's gradient unit.
  bool keeps_early() const { return split() && s_.sharded_gradients; }
  bool begins_gradients() const { return keeps_early() ? weights_here() : inputs(); }
  /// Sink for gradients of norms and of biases added after a sum.
  GradientSink& early_sink() { return early_sink_ ? *early_sink_ : sink_; }
  void take_early();
  void keep_again();
  DType dtype() const { return s_.dtypes.compute; }
  DType gradient_type() const { return s_.numerics.parameter_gradient; }
  Value scratch(std::int64_t elements) { return b_.scratch(dtype(), elements); }
  Value rows_scratch() { return scratch(s_.rows * s_.hidden); }
  /// Place of a gradient that matrix gradients read: stored for the second half, or scratch.
  Value hold(const Value& kept, std::int64_t elements) { return split() ? kept : scratch(elements); }

  void input_path();
  void pre(const Hidden& dy, const Hidden& dx);
  void alone(const Hidden& dy, const Hidden& dx);
  void behind(const Hidden& dy, const Hidden& dx);
  void side_by_side(const Hidden& dy, const Hidden& dx);
  /// Gradient of the input of cross attention's residual sum. `dy`: gradient of the sum.
  Value cross(const Value& dy);
  void cross_core(const Value& dcontext, const Value& dq, const Value& dkv);
  void cross_memory(const Value& dkv);
  void cross_proj_weights(const Value& d);
  void post(const Hidden& dy, const Hidden& dx);
  void post_add(const Hidden& dy, const Hidden& dx);
  void weights_path();
  Value attention_input();
  Value mlp_input();
  Value expert_input();
  Value router_input();

  /// Backward pass of a sublayer's factor, dropout and bias. Without factor and dropout the gradient passes unchanged.
  struct Branch {
    std::string name, bias;
    DropoutSite site;
    Value kept;
  };
  Value branch(const Branch& at, const Value& dy);
  /// Whether the gradient of the residual sum is that of a sublayer's last product.
  bool passes() const { return s_.hidden_dropout == 0 && s_.residual_scale == 1; }
  /// The gradient `dy` of a residual sum, times the factor of what was added to it.
  Value scaled(const Branch& at, const Value& dy);
  Branch mlp_site() const { return {"mlp_add", moe() ? "shared.fc2.bias" : "fc2.bias", DropoutSite::mlp_output, held_.mlp}; }
  Branch attention_site() const { return {"attention_add", "proj.bias", DropoutSite::attention_output, held_.attention}; }
  /// Gradient of the output of a sublayer's last product, from the gradient of the residual sum.
  Value mlp_gradient(const Value& dy);
  Value attention_gradient(const Value& dy);
  Value behind_norm(const Branch& at, const std::string& name, const Value& dy, const Value& x, const Value& stats);

  /// Gradient of a sublayer's input from that of its output, into `to` where given.
  Value attention(const Value& d, const Value& to);
  Value feed_forward(const Value& own);
  Value core(const Value& dcontext);
  Value score_core(const Value& dcontext);
  void add_flash(const std::string& name, int step, std::vector<Value> in, std::vector<Value> out);
  void softmax_backward(const AttentionDims& d, const Value& dprobs, const Value& dscores);
  Value flash_core(const Value& dcontext);
  Value ring_core(const Value& dcontext);
  Value merge_gathered(const Value& dkv_all, const Value& dqkv);
  Value dqkv_place();
  Value hold_qkv();
  Value experts(const Value& d);
  Value expert_branch(const Value& d, Value& dweights);
  void branches(const Value& d, const Value& residual, const Value& to);
  Summed shared_input(const Value& d);
  Value expert_rows(const Value& drows);
  std::uint16_t shared_experts(const Value& own, const Value& dx);
  Value router(const Value& dweights);
  Value activation_backward(const std::string& name, std::int64_t rows, const Value& dy, const Value& x, const Value& dx);
  Value fc1_gradient(const Value& da);
  /// Runs the second product of a recomputed MLP (Shapes::whole_modules). `inner`: its columns.
  void mlp_to_end(const std::string& name, std::int64_t inner);
  /// Gradient of a mixer's input, from the output gradient of its first product.
  Value mixer_input(const Value& din, const Value& to);
  /// Place of the first product's output gradient.
  Value input_gradient();
  // A recurrence (block_recurrence.cpp).
  Value recurrence(const Value& dcontext);
  void states(const Value& dy, const Value& dx, const Value& dscalars);
  void convolution(const Value& dy, const Value& dx);
  /// On context ranks: gradients of the first product's output from that of the recurrence's, of this rank's positions.
  void shared_scan(const Value& dy, const Value& dmixed, const Value& dscalars);
  /// Where a kernel writes gradients of its own heads' parameters: into those of all heads, or beside them.
  Value own_gradient(const Value& all, const ColumnParts& parts);
  void place_gradient(const std::string& name, const Value& own, const Value& all, const ColumnParts& parts);
  /// Gradient of attention's output, from the gradient of its gated output.
  Value ungated(const Value& dgated);
  // Latent attention (block_latent_backward.cpp): gradients of its input, from that of qkv, and of its matrices.
  Value latent_input(const Value& dqkv, const Value& to);
  Value latent_queries(const Value& dq, const Value& to);
  Value latent_kv(const Value& dkv, const Value& dturned);
  // The indexer (block_indexer_backward.cpp): gradients of its matrices. None flows to its input.
  void index_gradients();
  void block_index_gradients();
  /// Index queries or key: their values before the norm, the norm's statistics, and the place of the values' gradient.
  struct IndexPart {
    Value down, stats, held;
  };
  Value index_norm_gradient(const std::string& name, const IndexPart& part, const Value& dy);
  void scatter_index_keys(const Value& dk, const Value& own);
  Value index_target();
  Value index_key_gradient(const Value& dk);
  void index_weights(const Value& dq, const Value& dk, const Value& dw);
  Value summed(const Summed& sum);
  void latent_weights();
  void latent_weight(const std::string& name, const Value& dy, const Value& x, std::int64_t width);
  Value sum_input(const std::string& name, const Value& dy, std::int64_t width, const Value& to);

  /// All rows of an output's gradient, in the type in which its products read it where the framework narrows it ahead.
  Value gathered(Value own, const std::string& name) {
    if (s_.sequence_parallel) own.dtype = s_.kept_input();
    return tensor_gather(b_, s_, own, name);
  }

  void proj_weights(const Value& d);
  void input_weights(const Value& din);
  void fc2_weights(const Value& d, const std::string& name);
  void fc1_weights(const Value& df, const std::string& name);
  void router_weights(const Value& dlogits);
  void expert_weights();
  void expert_matrix(const std::string& name, const Value& dy, const Value& x, std::int64_t n, std::int64_t k);
  void kv_copies_sum();
  void kv_sum(const std::string& name, const Value& kv);
  void column_weights(const std::string& name, const Value& dy, const Value& input, std::int64_t width);
  void norm_gradient(const std::string& name, const NormGradient& n, const Value& dx);
  Value qk_norm_gradient(const Value& dqkv);
  using Adapters = std::vector<AdapterAt>;
  /// Backward pass of a matrix' adapters up to the input's gradient, which they add to `dx`.
  void through_adapters(const Adapters& all, const Value& dy, const Value& dx);
  /// Gradients of A and B. `x` gives the product's input where dropout's output is not stored.
  void adapter_weights(const Adapters& all, const std::function<Value()>& x);
  void adapter_weights(const AdapterAt& at, const AdapterGradients& d, const std::function<Value()>& x);
  /// The whole backward pass of a matrix' adapters.
  void whole_adapters(const Adapters& all, const Value& dy, const Value& dx, const std::function<Value()>& x) {
    through_adapters(all, dy, dx);
    adapter_weights(all, x);
  }
  void wait_for_sum(std::uint16_t task) {
    if (has_reduced_ && !s_.sum_beside_weights) b_.depend(task, reduced_);
  }
  Value gate_gradient(const Value& d, const Value& dx);
  bool moe() const { return s_.has_experts(); }

  const Shapes& s_;
  BlockBackwardKind kind_;
  BlockRegions regions_;
  TemplateBuilder b_;
  BlockParams weights_;
  GradientSink sink_, expert_sink_;
  std::optional<GradientSink> early_sink_;
  RegionValues relative_gradients_;
  Value x_whole_, dx_;
  Hidden x_;
  Value memory_, dmemory_;
  BlockActivations a_;
  BlockDeferred held_;
  Value input_gradient_;
  Value expert_rows_, expert_fc1_;  ///< gradients of the outputs of the experts' matrices
  std::uint16_t reduced_ = 0;
  bool has_reduced_ = false;
  std::vector<AdapterGradients> adapters_;  ///< of the adapters that through_adapters went through last
};

}  // namespace tandem::lowering
