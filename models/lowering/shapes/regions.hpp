#pragma once
// The parameters of one part of the model (a block, its experts, the embedding, the head) and where they lie in it.
//
// Under sequence parallelism the gradients of *partial* parameters, those that every tensor rank holds whole but uses on its
// own rows, are sums over the tensor ranks: they come first, so that one collective on one range sums them. Those used on a rank's
// own heads are such sums without sequence parallelism, too, and come before the others.

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
  std::int64_t rows, cols;            ///< local
  Cut cut = Cut::none;
  Param::Init init = Param::Init::normal;
  bool partial = false;
  std::int64_t expert_rows = 0;       ///< rows of one expert, where experts are stacked
  std::int64_t kv_copies = 0;         ///< its last so many rows, of keys or of both, are held by several tensor ranks
  std::int64_t kv_ranks = 1;          ///< so many
  bool vocabulary = false;            ///< one row for each word; the last rows are padding
  bool of_heads = false;              ///< partial whether rows are shared out or not: used on the rank's own heads
  double sign_step = 0;               ///< an update is by the sign of what stands in the gradient's place, of this size; 0: by the optimizer
  std::int64_t offset = 0;            ///< elements from the region's start

  bool vector() const { return cols == 1; }
  std::int64_t elements() const { return rows * cols; }
};

/// Parameters in the order of the whole model's list; their places put partial ones first, in the same order.
class RegionLayout {
 public:
  RegionLayout(std::string prefix, std::vector<ParamSpec> specs, Replication replication = Replication::data);

  const ParamSpec& at(std::string_view name) const;
  bool has(std::string_view name) const;
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const std::string& prefix() const { return prefix_; }
  Replication replication() const { return replication_; }
  std::int64_t elements() const { return elements_; }
  /// Rounded up to whole blocks of norms (GradNorm): where the next region starts.
  std::int64_t padded_elements() const { return (elements_ + 63) / 64 * 64; }
  std::int64_t partial_elements() const { return partial_; }
  /// The first of them: those that are used on heads.
  std::int64_t head_elements() const { return of_heads_; }
  /// Tensors in the whole model's list.
  std::int32_t tensors() const { return static_cast<std::int32_t>(specs_.size()); }

 private:
  std::string prefix_;
  std::vector<ParamSpec> specs_;
  Replication replication_;
  std::int64_t elements_ = 0, partial_ = 0, of_heads_ = 0;
};

/// A block without its experts, of a decoder where `s` are a decoder's sizes. Layers of experts have a router (and shared experts) instead
/// of an MLP.
RegionLayout block_region(const Shapes& s, const std::string& prefix = "");
/// Of a block's region what the first half of a split backward pass gives gradients of: norms, and biases that are added after a sum.
RegionLayout early_region(const RegionLayout& block);
/// Of a block's region the vectors that the second half of a split backward pass reads to compute a forward pass' tensors again: norms'
/// parameters, where what they gave is not kept, and the bias in an activation, where that is not.
RegionLayout again_region(const Shapes& s, const RegionLayout& block);
/// Parameters that stand together in a part of a region and in the region: where they begin in both.
struct Neighbours {
  std::int64_t in_part, in_whole, elements;
};
std::vector<Neighbours> neighbours(const RegionLayout& part, const RegionLayout& whole);
/// The tables of relative position bias of both stacks: every stage has a copy.
RegionLayout relative_region(const Shapes& s);
/// Between an encoder and a decoder: the norm of the encoder's output.
RegionLayout bridge_region(const Shapes& s);
/// The experts of one block that this rank holds; where it holds all of them, cut as all else, they are parameters like any others
/// (Megatron-LM: megatron/core/transformer/moe/experts.py sets `allreduce` off for parameters only where
/// expert_model_parallel_size > 1).
RegionLayout experts_region(const Shapes& s, const std::string& prefix = "");
/// The table of learned positions that both stacks of an encoder-decoder use: the stages that look words up have a copy.
RegionLayout position_region(const Shapes& s);
/// Whichever of these tables the model has; empty: neither.
RegionLayout tables_region(const Shapes& s);
/// Everything of the embedding but the word matrix and positions that two stacks share.
RegionLayout embedding_region(const Shapes& s);
RegionLayout word_region(const Shapes& s);
/// Everything of the head but the output matrix.
RegionLayout head_region(const Shapes& s);
/// Of an MTP module all but its block: norms of what it reads, the matrix on both and the norm behind its block. The matrix has the rows that
/// the word is multiplied with, then those of the state.
RegionLayout mtp_region(const Shapes& s, const std::string& prefix = "");
/// The output matrix: its own, or a copy of the word matrix on another stage.
RegionLayout output_region(const Shapes& s);

}  // namespace tandem::lowering
