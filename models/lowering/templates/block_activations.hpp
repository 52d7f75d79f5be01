#pragma once
// The forward pass of a block, piece by piece. The forward template asks for all pieces in order; the backward template for
// what it needs: what was kept is there, the rest is computed again.

#include <functional>
#include <string>

#include "models/lowering/templates/block_saved.hpp"
#include "models/lowering/templates/norm.hpp"
#include "models/lowering/templates/region_values.hpp"

namespace tandem::lowering {

/// Parameters of one block: its own region, its experts' where it has some, and the tables of relative bias.
struct BlockParams {
  RegionValues block, experts, relative;
  RegionValues again;  ///< vectors of the block that are read elsewhere (again_region); none where it is empty

  Value vector(std::string_view name) const {
    return again.whole().elements > 0 && again.layout().has(name) ? again(name) : block(name);
  }
};

class BlockActivations {
 public:
  BlockActivations(TemplateBuilder& b, const Shapes& s, const BlockParams& weights, const BlockSaved& saved)
      : b_(b), s_(s), w_(weights), t_(saved) {}

  BlockSaved& at() { return t_; }
  /// From here on these vectors of the block are read here and not among its weights.
  void vectors_from(const RegionValues& again) { w_.again = again; }

  /// What attention (1), the MLP or the experts (2), experts beside an MLP (3) and their router (4) read: the output of the norm before
  /// them, or `x` itself where norms come after. This rank's rows, and all tokens'.
  Value own_input(int which, const Value& x);
  Value input(int which, const Value& x);
  /// The same of the MLP or the experts in a block that reads `x`: they may stand beside attention.
  Value mlp_input(const Value& x) { return s_.parallel == ParallelResidual::one_norm ? input(1, x) : input(2, mlp_state(x)); }
  Value own_mlp_input(const Value& x) {
    return s_.parallel == ParallelResidual::one_norm ? own_input(1, x) : own_input(2, mlp_state(x));
  }
  /// What experts, and their router, read: this rank's rows.
  Value experts_input(const Value& x) { return s_.branch_norms ? own_input(3, mlp_state(x)) : own_mlp_input(x); }
  Value router_input(const Value& x) { return s_.router_norm ? own_input(4, mlp_state(x)) : experts_input(x); }
  Value mlp_state(const Value& x) const {
    return s_.parallel == ParallelResidual::none && s_.kind.mixes() ? Value(t_.x2) : x;
  }

  /// Names the state that attention reads.
  void attends_to(const Value& x) { state_ = x; }
  /// qkv as the core reads it; nothing where it is there.
  void qkv();
  /// Attention, or a recurrence, as far as the product behind it.
  void mix();
  /// The core's probabilities or flash statistics, and the context of this rank's tokens.
  void core();
  /// The context of this rank's tokens, brought back where it was not kept.
  Value context();
  /// What the product behind attention or a recurrence reads.
  Value mixed();
  /// Queries, keys and values behind the convolution of a recurrence (block_recurrence.cpp), made again where they were not kept.
  Value convolved();
  /// What a recurrence reads, and the norm behind it.
  std::vector<Value> recurrence_operands();
  GatedNorm recurrence_norm() const;
  /// Brings back what the core's backward pass reads.
  void need_core();
  /// Keys and values of this rank's positions, where they stand apart from the queries; of the whole sequence.
  Value own_kv();
  Value all_kv();
  /// A tensor whose columns go to ranks as `parts` says, from (own positions, all heads) to (all positions, own heads), and back into `to`.
  Value by_heads(const Value& v, const ColumnParts& parts, const std::string& name);
  void by_positions(const Value& v, const ColumnParts& parts, const std::string& name, const Value& to);

  /// The residual sum behind the attention: a place for it in the forward pass; brought back in the backward pass, from the block's
  /// input.
  Value state_place() { return start(t_.x2, s_.rows * s_.hidden); }
  /// A place for what a norm behind a sublayer reads, and for its statistics.
  Value out_place(Kept& out) { return start(out, s_.rows * s_.hidden); }
  void need_state(const Value& x);

  /// Outputs of the MLP's first matrix, in pieces of rows of which only the first may be kept, and of its activation; from all
  /// tokens' rows of its input, which nobody reads where `fc1_ready()`.
  std::vector<Value> fc1(const Value& input);
  bool fc1_ready() const;
  Value activated(const Value& input);

  // Latent attention (block_latent.cpp), from the state that attention reads: what its up-projections read, all tokens' rows.
  Value latent_queries(const Value& x);
  Value latent_kv(const Value& x);

  // The indexer of sparse attention (block_indexer.cpp, of blocks block_index_blocks.cpp), from the same state: the chosen keys of this rank's
  // queries, its queries, and its keys of the whole sequence.
  Value chosen();
  Value index_queries();
  Value all_index_keys();

  // Attention to the encoder's output (decoder_cross.cpp), which is `memory`.
  /// Output of its norm: all tokens' rows.
  Value cross_normed();
  /// All rows of the encoder's output.
  Value all_memory(const Value& memory);
  /// Queries, keys and values, then the context.
  void cross(const Value& memory);
  /// Brings back what the backward pass of its core reads.
  void need_cross_core();

  // Experts (block_experts.cpp), from own rows of their input.
  void route(const Value& input);
  Value dispatched(const Value& input);
  Value expert_fc1(const Value& input);
  Value expert_activated(const Value& input);
  void experts_return(const Value& input);
  /// What shared experts give, and where it lies for its gate's gradient.
  Value shared_place() { return start(t_.moe.shared, s_.rows * s_.hidden); }
  Value gate_shared(const Value& x, const Value& input);
  /// Rows in order of their tokens' ranks, where their experts are: exchanged, and gathered from the tensor ranks that have rows of
  /// their own; into `all`, or `sent` itself where one rank has all.
  Value to_experts(const Value& sent, const std::string& name, Value all = {});
  /// The way back: partial sums become the rank's share of the sum where they were gathered, and are exchanged, into `to`.
  Value to_tokens(const Value& made, const std::string& name, Value to = {});
  bool ragged() const { return s_.capacity == 0; }
  /// Groups of rows that belong to one expert, and rows of a group; ragged: ranks that rows come from, and all planned rows.
  std::int64_t groups() const { return s_.row_shares() * s_.expert_ranks * (ragged() ? 1 : s_.experts_here); }
  std::int64_t group_rows() const { return ragged() ? s_.planned_expert_rows() : s_.capacity; }
  /// Ragged products also read how many rows each expert has.
  std::vector<Value> with_counts(std::vector<Value> operands) const;

  /// While product `task` runs what it reads of `x`, which is kept narrow, lies there as it was written, too.
  void hold_wide(std::uint16_t task, const Value& x) {
    if (bits(x.dtype) < bits(s_.dtypes.compute)) b_.hold(task, s_.dtypes.compute, x.elements);
  }
  /// y = x W^T (+ bias), `width` output columns on this rank; `part` follows the task's name.
  void column(const std::string& name, const Value& x, std::int64_t width, const Value& y, const std::string& part = "");
  /// The bias that the activation `name` adds to its input because the product before it did not; nothing elsewhere.
  Value activation_bias(const std::string& name) const;
  const BlockParams& weights() const { return w_; }

 private:
  /// Gives a tensor that is not kept a place in scratch; it counts as written from here on.
  Value start(Kept& t, std::int64_t elements);
  Value start(Kept& t, std::int64_t elements, DType dtype);
  /// What an activation reads: written by `product`, or kept from before. Kept narrower than it is read, it is cast to be kept and back,
  /// once a template each way.
  Value activation_input(Kept& t, Value& wide, std::int64_t elements, const std::string& name,
                         const std::function<void(const Value&)>& product);
  bool norms_inputs() const { return s_.placement == NormPlacement::pre && !s_.bare_inputs; }
  bool rows_travel() const { return s_.expert_ranks * s_.row_shares() > 1; }
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
  /// Columns of what the MLP's first matrix writes.
  std::int64_t fc1_width() const { return w_.block.layout().has("fc1.weight") ? s_.fc1 : s_.shared_fc1; }

  Value state_, latent_queries_, latent_kv_, all_index_keys_;
  Value input_[2], own_kv_, all_kv_, cross_input_, all_memory_;
  Value fc1_rest_;  ///< rows of fc1 that are not kept
  Value fc1_wide_, expert_fc1_wide_;  ///< what is kept narrower, as an activation reads it
};

}  // namespace tandem::lowering
