#pragma once
// The forward pass of a block, piece by piece. The forward template asks for all pieces in order; the backward template for
// what it needs: what was kept is there, the rest is computed again.

#include "models/lowering/block_saved.hpp"
#include "models/lowering/norm.hpp"
#include "models/lowering/region_values.hpp"

namespace tandem::lowering {

/// Parameters of one block: its own region, its experts' where it has some, and the tables of relative bias.
struct BlockParams {
  RegionValues block, experts, relative;
};

class BlockActivations {
 public:
  BlockActivations(TemplateBuilder& b, const Shapes& s, const BlockParams& weights, const BlockSaved& saved)
      : b_(b), s_(s), w_(weights), t_(saved) {}

  BlockSaved& at() { return t_; }

  /// Output of norm 1 or 2 of `x`, before its sublayer: all tokens' rows.
  Value normed(int which, const Value& x);
  /// `x` itself before its sublayer, where norms come after: all tokens' rows.
  Value plain(int which, const Value& x);

  /// qkv as the core reads it, from all tokens' rows of the attention's input.
  void qkv(const Value& input);
  /// The core's probabilities or flash statistics, and the context of this rank's tokens.
  void core();
  /// Brings back what the core's backward pass reads.
  void need_core();
  /// Keys and values of this rank's positions, where they stand apart from the queries; of the whole sequence.
  Value own_kv();
  Value all_kv();
  /// A tensor of `columns` columns from (own positions, all heads) to (all positions, own heads), and back into `to`.
  Value by_heads(const Value& v, std::int64_t columns, const std::string& name);
  void by_positions(const Value& v, std::int64_t columns, const std::string& name, const Value& to);

  /// Outputs of the MLP's first matrix and of its activation, from all tokens' rows of its input.
  Value fc1(const Value& input);
  Value activated(const Value& input);

  // Attention to the encoder's output (decoder_cross.cpp), which is `memory`.
  /// Output of its norm: all tokens' rows.
  Value cross_normed();
  /// All rows of the encoder's output.
  Value all_memory(const Value& memory);
  /// Queries, keys and values, then the context.
  void cross(const Value& memory);
  /// Brings back what the backward pass of its core reads.
  void need_cross_core();

  // Experts (block_experts.cpp).
  void route(const Value& input);
  Value dispatched(const Value& input);
  Value expert_fc1(const Value& input);
  Value expert_activated(const Value& input);
  void experts_return(const Value& input);
  /// Rows where their experts are, or back where their tokens are: an all-to-all into `to`, or `v` itself on one rank.
  enum class Way : std::uint8_t { to_experts, to_tokens };
  Value exchange(const Value& v, Way way, const std::string& name, Value to = {});
  bool ragged() const { return s_.capacity == 0; }
  /// Groups of rows that belong to one expert, and rows of a group; ragged: ranks that rows come from, and all planned rows.
  std::int64_t groups() const { return ragged() ? s_.expert_ranks : s_.expert_ranks * s_.experts_here; }
  std::int64_t group_rows() const { return ragged() ? s_.moe_dims().rows() : s_.capacity; }
  /// Ragged products also read how many rows each expert has.
  std::vector<Value> with_counts(std::vector<Value> operands) const;

  /// y = x W^T (+ bias), `width` output columns on this rank.
  void column(const std::string& name, const Value& x, std::int64_t width, const Value& y);
  /// The bias that the activation `name` adds to its input because the product before it did not; nothing elsewhere.
  Value activation_bias(const std::string& name) const;
  const BlockParams& weights() const { return w_; }

 private:
  /// Gives a tensor that is not kept a place in scratch; it counts as written from here on.
  Value start(Kept& t, std::int64_t elements);
  void rotate();
  void score_core();
  void flash_core(const Value& context);
  void ring_core(const Value& context);

  TemplateBuilder& b_;
  const Shapes& s_;
  BlockParams w_;
  BlockSaved t_;
  Value input_[2], own_kv_, all_kv_, cross_input_, all_memory_;
};

}  // namespace tandem::lowering
