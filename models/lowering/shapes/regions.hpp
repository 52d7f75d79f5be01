#pragma once
// The parameters of one part of the model (a block, its experts, the embedding, the head) and their offsets in the region.
//
// A *partial* parameter is replicated on all tensor ranks, but each rank uses it on its own rows under sequence parallelism.
// Its gradient is then a sum over tensor ranks. Partial parameters come first, so that one collective on one range sums
// them. Ahead of all are those used on a rank's own heads: their gradients need the sum without sequence parallelism, too.

#include <string>
#include <string_view>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/lowering/shapes/shapes.hpp"

namespace tandem::lowering {

/// How a parameter is cut over tensor ranks.
enum class Cut : std::uint8_t { none, rows, cols };

struct ParamSpec {
  std::string name;                   ///< within the region, e.g. "qkv.weight"
  std::int64_t rows, cols;            ///< on this rank
  Cut cut = Cut::none;
  Param::Init init = Param::Init::normal;
  bool partial = false;
  std::int64_t expert_rows = 0;       ///< rows of one expert; 0: not a parameter of experts
  std::int64_t kv_copies = 0;         ///< last rows (keys, or keys and values) that several tensor ranks hold alike
  std::int64_t kv_ranks = 1;          ///< number of those tensor ranks
  ColumnBlocks blocks{};              ///< rows in blocks, each cut by itself
  bool vocabulary = false;            ///< one row for each word; last rows may be padding
  bool of_heads = false;              ///< used on the rank's own heads: partial without sequence parallelism, too
  double sign_step = -1;              ///< at least 0: w -= sign_step * sign(gradient) in place of the optimizer's update
  std::int64_t offset = 0;            ///< elements from the start of the region

  bool vector() const { return cols == 1; }
  std::int64_t elements() const { return rows * cols; }
};

/// Specs keep the order of the whole model's parameter list. Offsets put partial parameters first.
class RegionLayout {
 public:
  /// Parameters start at multiples of `alignment` elements.
  RegionLayout(std::string prefix, std::vector<ParamSpec> specs, Replication replication = Replication::data,
               std::int64_t alignment = 1);

  const ParamSpec& at(std::string_view name) const;
  bool has(std::string_view name) const;
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const std::string& prefix() const { return prefix_; }
  Replication replication() const { return replication_; }
  std::int64_t elements() const { return elements_; }
  /// Elements rounded up to GradNorm's blocks of 64. The next region starts there.
  std::int64_t padded_elements() const { return (elements_ + 63) / 64 * 64; }
  std::int64_t partial_elements() const { return partial_; }
  /// Leading elements of the partial range: parameters used on the rank's own heads.
  std::int64_t head_elements() const { return of_heads_; }
  /// Number of tensors in the whole model's parameter list.
  std::int32_t tensors() const { return static_cast<std::int32_t>(specs_.size()); }

 private:
  std::string prefix_;
  std::vector<ParamSpec> specs_;
  Replication replication_;
  std::int64_t elements_ = 0, partial_ = 0, of_heads_ = 0;
};

/// One block without its experts; a decoder's block where `s` are a decoder's sizes.
/// Layers with experts have a router (and shared experts) in place of an MLP.
RegionLayout whole_block_region(const Shapes& s, const std::string& prefix = "");
/// The same without the quantized matrices, and these alone: none unless frozen weights are quantized.
RegionLayout block_region(const Shapes& s, const std::string& prefix = "");
RegionLayout quantized_region(const Shapes& s, const std::string& prefix = "");
/// Parameters whose gradients the first half of a split backward pass computes: norms, biases added after a sum, small vectors.
RegionLayout early_region(const RegionLayout& block);
/// Vectors of a block that the second half of a split backward pass reads for recomputation: norm parameters
/// if norm outputs are not stored, and fc1's bias if a fused activation adds it and its output is not stored.
RegionLayout again_region(const Shapes& s, const RegionLayout& block);
/// A run of parameters that are contiguous in a part of a region and in the whole region, with both start offsets.
struct Neighbours {
  std::int64_t in_part, in_whole, elements;
};
std::vector<Neighbours> neighbours(const RegionLayout& part, const RegionLayout& whole);
/// Tables of relative position bias of encoder and decoder. Every stage has a copy.
RegionLayout relative_region(const Shapes& s);
/// The norm of the encoder's output, between encoder and decoder.
RegionLayout bridge_region(const Shapes& s);
/// One block's experts on this rank. If a rank has all experts, cut like other matrices, they
/// are ordinary data-parallel parameters (Megatron-LM: megatron/core/transformer/moe/experts.py
/// sets `allreduce` off for parameters only where expert_model_parallel_size > 1).
RegionLayout experts_region(const Shapes& s, const std::string& prefix = "");
/// Adapters of one block. Under tensor parallelism the half of a pair that all ranks hold whole is partial: A of a matrix cut by
/// rows, B of a matrix cut by columns.
RegionLayout adapter_region(const Shapes& s, const std::string& prefix = "");
/// Adapters of one block's experts on this rank, an A and a B for each expert.
RegionLayout expert_adapter_region(const Shapes& s, const std::string& prefix = "");
/// The table of learned positions shared by encoder and decoder. Stages with a word lookup have a copy.
RegionLayout position_region(const Shapes& s);
/// The model's relative bias or shared position table; empty: it has neither.
RegionLayout tables_region(const Shapes& s);
/// The embedding without the word matrix and without the position table that two stacks share.
RegionLayout embedding_region(const Shapes& s);
RegionLayout word_region(const Shapes& s);
/// The head without the output matrix.
RegionLayout head_region(const Shapes& s);
/// An MTP module without its block: two input norms, the matrix on both inputs and the norm after
/// its block. The matrix has the rows for the word's embedding, then those for the hidden state.
RegionLayout mtp_region(const Shapes& s, const std::string& prefix = "");
/// The output matrix; with tied embeddings, a copy of another stage's word matrix.
RegionLayout output_region(const Shapes& s);

}  // namespace tandem::lowering
