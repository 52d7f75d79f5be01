#pragma once
// The forward pass of a block, piece by piece. The forward template requests all pieces in order.
// The backward template requests the pieces it reads: stored ones exist, the others are recomputed.

#include <functional>
#include <string>

#include "models/lowering/templates/block_adapters.hpp"
#include "models/lowering/templates/block_saved.hpp"
#include "models/lowering/templates/norm.hpp"
#include "models/lowering/templates/region_values.hpp"

namespace tandem::lowering {

/// Parameters of one block: its own region, its quantized matrices, those of its adapters and experts, and the tables of relative bias.
struct BlockParams {
  RegionValues block, quantized, adapters, experts, expert_adapters, relative;
  RegionValues again;  ///< vectors kept outside the block's weights (again_region); empty if none

  Value vector(std::string_view name) const {
    return again.whole().elements > 0 && again.layout().has(name) ? again(name) : block(name);
  }
};

/// Factor of what a sublayer adds to the residual, or of its gradient.
inline Elementwise residual_scale(const Shapes& s) {
  return {s.rows, s.hidden, ElementwiseKind::multiply, Spread::none, s.residual_scale};
}

/// The end of a sublayer: its task's name, and its bias in the block's region, if that has it.
struct ResidualAdd {
  DropoutSite site;
  std::string name, bias;
};

class BlockActivations {
 public:
  BlockActivations(TemplateBuilder& b, const Shapes& s, const BlockParams& weights, const BlockSaved& saved)
      : b_(b), s_(s), w_(weights), t_(saved) {}

  BlockSaved& at() { return t_; }
  /// From now on, tasks read those vector parameters of the block that `again` has from there, instead of from its weights.
  void vectors_from(const RegionValues& again) { w_.again = again; }

  /// Input of a sublayer: attention (1), MLP or experts (2), experts beside an MLP (3), their router (4). It is the
  /// output of the preceding norm, or `x` if norms come after. own_input: this rank's rows; input: all tokens' rows.
  Value own_input(int which, const Value& x);
  Value input(int which, const Value& x);
  /// Input of the MLP or experts in a block with input `x`. With a parallel residual it is attention's input.
  Value mlp_input(const Value& x) { return s_.parallel == ParallelResidual::one_norm ? input(1, x) : input(2, mlp_state(x)); }
  Value own_mlp_input(const Value& x) {
    return s_.parallel == ParallelResidual::one_norm ? own_input(1, x) : own_input(2, mlp_state(x));
  }
  /// Input of the experts, and of their router: this rank's rows.
  Value experts_input(const Value& x) { return s_.branch_norms ? own_input(3, mlp_state(x)) : own_mlp_input(x); }
  Value router_input(const Value& x) { return s_.router_norm ? own_input(4, mlp_state(x)) : experts_input(x); }
  Value mlp_state(const Value& x) const {
    return s_.parallel == ParallelResidual::none && s_.kind.mixes() ? Value(t_.x2) : x;
  }

  /// Sets the state that attention reads.
  void attends_to(const Value& x) { state_ = x; }
  /// Computes qkv for the attention kernel, unless it exists already.
  void qkv();
  /// Runs attention or a recurrence up to the output projection.
  void mix();
  /// Computes softmax probabilities or flash statistics, and attention's output for this rank's tokens.
  void core();
  /// Attention's output for this rank's tokens, moved back from head shares if that was not stored.
  Value context();
  /// Input of the output projection after attention or a recurrence.
  Value mixed();
  /// Queries, keys and values after a recurrence's convolution (block_recurrence.cpp), recomputed if not stored.
  Value convolved();
  /// Operands of a recurrence, and the norm after it.
  std::vector<Value> recurrence_operands();
  GatedNorm recurrence_norm() const;
  /// Weight of the convolution, and its bias if it has one, for the heads that this rank scans.
  std::vector<Value> convolution_weights();
  /// Exchanges like by_heads and by_positions. On whole sequences, rows are in the order of positions.
  void to_sequences(const Value& v, const ColumnParts& parts, const std::string& name, const Value& to);
  void from_sequences(const Value& v, const ColumnParts& parts, const std::string& name, const Value& to);
  /// Recomputes the inputs of the attention kernel's backward pass.
  void need_core();
  /// Keys and values separate from the queries: of this rank's positions; of the whole sequence.
  Value own_kv();
  Value all_kv();
  /// Exchanges columns by `parts`: from (own positions, all heads) to (all positions, own heads); by_positions: back, into `to`.
  Value by_heads(const Value& v, const ColumnParts& parts, const std::string& name);
  void by_positions(const Value& v, const ColumnParts& parts, const std::string& name, const Value& to);

  /// Place of the hidden state after attention's residual sum, in the forward
  /// pass. need_state recomputes it in the backward pass from the block's input.
  Value state_place() { return start(t_.x2, s_.rows * s_.hidden); }
  /// Place for the input of a norm after a sublayer, and for its statistics.
  Value out_place(Kept& out) { return start(out, s_.rows * s_.hidden); }
  void need_state(const Value& x);
  /// y = residual + dropout(factor (x + bias)). Overwrites x if the factor is not 1.
  void add_to(const ResidualAdd& add, const Value& x, const Value& residual, const Value& y);

  /// Output of the MLP's first matrix in row pieces, of which only the first may be stored; activated():
  /// output of the activation. `input`: its input, all tokens' rows; unused if `fc1_ready()`.
  std::vector<Value> fc1(const Value& input);
  bool fc1_ready() const;
  Value activated(const Value& input);

  // Latent attention (block_latent.cpp), from attention's input state: inputs of its up-projections, all tokens' rows.
  Value latent_queries(const Value& x);
  Value latent_kv(const Value& x);

  // The indexer of sparse attention (block_indexer.cpp), from the same state: the keys that this rank's queries choose, its queries, and its keys of the whole sequence.
  Value chosen();
  Value index_queries();
  Value all_index_keys();

  // Cross attention (decoder_cross.cpp) to the encoder's output, `memory`.
  /// Output of cross attention's norm: all tokens' rows.
  Value cross_normed();
  /// All rows of the encoder's output.
  Value all_memory(const Value& memory);
  /// Computes queries, keys and values, then attention's output.
  void cross(const Value& memory);
  /// Recomputes the inputs of its kernel's backward pass.
  void need_cross_core();

  // Experts (block_experts.cpp). `input`: this rank's rows.
  void route(const Value& input);
  Value dispatched(const Value& input);
  Value expert_fc1(const Value& input);
  Value expert_activated(const Value& input);
  void experts_return(const Value& input);
  /// Output of the experts. Returned rows are complete under sequence parallelism, else partial sums.
  std::uint16_t combine(const Value& out);
  /// Place of the shared experts' output, which the gradient of their gate reads.
  Value shared_place() { return start(t_.moe.shared, s_.rows * s_.hidden); }
  Value gate_shared(const Value& x, const Value& input);
  /// Sends rows to their experts' ranks. Rows are in order of their tokens' ranks. Tensor ranks with different
  /// rows then gather them. The result is in `all`, or is `sent` itself if one rank has all experts.
  Value to_experts(const Value& sent, const std::string& name, Value all = {});
  /// The way back: reduce-scatters gathered partial sums to the rank's share, then exchanges rows, into `to`.
  Value to_tokens(const Value& made, const std::string& name, Value to = {});
  /// For a rank that gathers all members' tokens: gathers `v` of all members; on the way back, sums over members for this rank's part.
  void gather_members(const Value& v, const std::string& name, const Value& all);
  std::uint16_t sum_members(const Value& all, const std::string& name, const Value& to);
  /// `v` of all members if a rank gathers their tokens, else `v`.
  Value of_members(const Value& v, const std::string& name);
  /// Rows of choices in dispatch and combine, and their weights.
  Value placed() const { return s_.gathers_tokens() ? t_.moe.placed : t_.moe.slots; }
  Value choice_weights() const { return s_.gathers_tokens() ? t_.moe.all_weights : t_.moe.weights; }
  bool ragged() const { return s_.capacity == 0; }
  /// Number of row groups with one expert each, and rows of a group. Ragged: source ranks, and all planned rows.
  std::int64_t groups() const { return s_.row_shares() * s_.expert_ranks * (ragged() ? 1 : s_.experts_here); }
  std::int64_t group_rows() const { return ragged() ? s_.planned_expert_rows() : s_.capacity; }
  /// Adds to a ragged product's operands the row count of each expert.
  std::vector<Value> with_counts(std::vector<Value> operands) const;

  /// If `x` is stored in a narrow type, also holds its wide original while product `task` runs.
  void hold_wide(std::uint16_t task, const Value& x) {
    if (bits(x.dtype) < bits(s_.dtypes.compute)) b_.hold(task, s_.dtypes.compute, x.elements);
  }
  /// y = x W^T (+ bias), `width` output columns on this rank; `part` follows the task's name.
  void column(const std::string& name, const Value& x, std::int64_t width, const Value& y, const std::string& part = "");
  // Adapters (block_adapters.hpp).
  /// The adapters of matrix `name`, which has `in` columns and `out` rows on this rank.
  std::vector<AdapterAt> adapters(const std::string& name, std::int64_t in, std::int64_t out) const;
  /// y += the outputs of the matrix' adapters. What A gives is stored.
  void adapt(const std::string& name, const Value& x, std::int64_t in, std::int64_t out, const Value& y);
  /// Stored output of A.
  Value adapter_kept(const std::string& name) { return adapter_place(name).inner; }
  /// Whether the backward pass needs the layer's own input for gradients of A, of an adapter or any of a matrix: dropout's output is
  /// not stored.
  bool adapter_reads(std::string_view name) const;
  /// The input of A: that of the layer after dropout.
  Value adapter_input_of(const AdapterAt& at, const Value& x);
  /// The bias that activation `name` adds to its input because the product did not; empty if the product added it.
  Value activation_bias(const std::string& name) const;
  const BlockParams& weights() const { return w_; }
  /// The matrix of product `name`. A quantized one is dequantized ahead of each product, as bitsandbytes does forward and backward
  /// (bitsandbytes/autograd/_functions.py, MatMul4Bit); `part` follows the task's name.
  Value matrix(const std::string& name, const std::string& part = "");

 private:
  /// Places a tensor in scratch if it is not stored. From now on it counts as written.
  Value start(Kept& t, std::int64_t elements);
  Value start(Kept& t, std::int64_t elements, DType dtype);
  /// Input of an activation: written by `product`, or stored from the forward pass. If it
  /// is stored in a narrower type, it is cast to that type and back, once per template.
  Value activation_input(Kept& t, Value& wide, std::int64_t elements, const std::string& name,
                         const std::function<void(const Value&)>& product);
  AdapterSaved& adapter_place(const std::string& name) { return t_.adapters.at(name); }
  bool norms_inputs() const { return s_.placement == NormPlacement::pre && !s_.bare_inputs; }
  bool rows_travel() const { return s_.members() > 1 && !s_.gathers_tokens(); }
  void place_choices();
  enum class Way : std::uint8_t { to_experts, to_tokens };
  void exchange(const Value& v, Way way, const std::string& name, const Value& to);
  void over_row_shares(CollectiveKind kind, const Value& v, const std::string& name, const Value& to);
  Value own_rows(const Value& all);
  Value arrivals(DType dtype) { return b_.scratch(dtype, s_.arrived_rows() * s_.hidden); }
  struct InputNorm {
    const char* name;
    Kept &n, &stats;
  };
  InputNorm input_norm(int which);
  void norm_heads();
  Value row_sums();
  void rotate();
  Value own_latent_queries(const Value& x);
  void own_latent_kv(const Value& x, bool turned);
  void latent_heads(const Value& x, const Value& y);
  Value index_keys();
  void recurrence();
  void exchange_scan_input();
  Value own_heads(const std::string& name, const Value& all, const ColumnParts& parts);
  const Value& head_vectors();
  void gated_qkv(const Value& x);
  Value chosen_blocks();
  Value index_part(const std::string& name, std::int64_t heads, Kept& down, Kept& stats, Kept& y);
  void score_core();
  void flash_core(const Value& context);
  void ring_core(const Value& context);

  TemplateBuilder& b_;
  const Shapes& s_;
  BlockParams w_;
  BlockSaved t_;
  /// Columns of the output of the MLP's first matrix.
  std::int64_t fc1_width() const { return has_mlp() ? s_.fc1 : s_.shared_fc1; }
  bool has_mlp() const { return w_.quantized.whole().elements > 0 || w_.block.layout().has("fc1.weight"); }

  Value state_, latent_queries_, latent_kv_, all_index_keys_;
  Value convolution_weight_, convolution_bias_, head_vectors_;  ///< of the heads that this rank scans
  Value input_[2], own_kv_, all_kv_, cross_input_, all_memory_;
  Value fc1_rest_;  ///< rows of fc1's output that are not stored
  Value fc1_wide_, expert_fc1_wide_;  ///< wide copies of narrowly stored activation inputs
};

}  // namespace tandem::lowering
