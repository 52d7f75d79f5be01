#pragma once
// Which regions a stage has, where they lie in its flat buffers, and the units in which their gradients leave: sizes alone. The stage's
// parameters (parameters.hpp) and estimates without a task graph (sim/closed_form) both start here.
//
// The flat order is the order in which the backward pass completes gradients (head, MTP modules, last layer .. first, embedding), so a
// data-parallel bucket is one contiguous range that can leave while the rest is still being computed. Experts of expert ranks, whose
// gradients are summed over fewer of them, follow everything else in the same order. Regions start at multiples of 64
// elements, so the blocks of which norms are summed do not depend on the split.

#include <array>
#include <vector>

#include "models/lowering/shapes/regions.hpp"

namespace tandem::lowering {

/// What one chunk of a stage holds.
struct ChunkPart {
  std::int32_t chunk = 0;
  std::int64_t first_layer = 0, layers = 0;
  bool first = false, last = false;    ///< has the embedding / has the head
  bool bridge = false;                 ///< has the decoder's first layer, and what stands before it
  std::int64_t mtp = 0;                ///< modules of multi-token prediction between its layers and the head

  /// Layers and blocks of modules, which follow them.
  std::int64_t blocks() const { return layers + mtp; }
};

/// Of a chunk's layers, how many are among the first `limit` layers of its stage, in the order in which they run; 0: all of them.
std::int64_t among_first(const std::vector<ChunkPart>& chunks, const ChunkPart& part, std::int64_t limit);

enum class RegionKind : std::uint8_t { head, output, block, experts, bridge, embedding, word, relative, positions, mtp };
/// Tables that several places of an encoder-decoder add to: a micro-batch's gradient is complete before it joins the others'.
constexpr bool is_table(RegionKind k) { return k == RegionKind::relative || k == RegionKind::positions; }

/// Elements in whole blocks of norms; 0: the model has no such region.
struct RegionSize {
  std::int64_t elements = 0;
  Replication replication = Replication::data;
};

/// What the regions of a model's stages and their units depend on.
struct ModelRegions {
  std::array<RegionSize, kLayerKinds> blocks;  ///< by LayerKind::index(); of kinds that the model has
  RegionSize head, output, decoder, experts, bridge, embedding, word, relative, positions;  ///< `decoder`: a block
  RegionSize mtp;                        ///< of a module without its block
  std::vector<LayerKind> kinds;          ///< by global layer, then by module
  std::int64_t first_decoder = -1;       ///< global layer; -1: one stack
  bool tied = false, shared_positions = false;
  bool defer_weights = false;            ///< a split backward pass
  DType gradient_reduce = DType::fp32;

  LayerKind kind(std::int64_t layer) const { return kinds[static_cast<std::size_t>(layer)]; }
  bool is_decoder(std::int64_t layer) const { return first_decoder >= 0 && layer >= first_decoder; }
};
ModelRegions model_regions(const Shapes& s);

/// One region of a stage in its flat buffers.
struct RegionPlace {
  RegionKind kind;
  std::int32_t chunk = 0;
  std::int64_t layer = -1;             ///< global
  bool copy = false;                   ///< another stage's counts
  Replication replication = Replication::data;
  std::int64_t elements = 0;           ///< rounded up to whole blocks
  std::int64_t offset = 0;             ///< flat
  std::int32_t unit = -1;
  std::int64_t unit_offset = 0;        ///< elements from the start of its unit
};

/// How gradients, states and weights are shared out among data-parallel ranks.
struct Sharding {
  int zero_stage = 0;
  std::int64_t shards = 1, expert_shards = 1;  ///< parts of a unit of ordinary parameters and of experts
  Bytes bucket_bytes;
  OffloadSpec offload;               ///< what of them lives in the host's memory
  bool gathers_next = false;         ///< the next step gathers the weights that this one updates
};
Sharding sharding_of(const Plan& plan);

/// Regions [first, first + count) leave and are sharded together: a bucket.
struct UnitRegions {
  std::int32_t first = 0, count = 0;
};

struct StageUnits {
  std::vector<RegionPlace> regions;    ///< ascending offset: completion order, experts behind the others
  std::vector<UnitRegions> unit_regions;
  std::vector<ShardUnit> units;        ///< parallel to unit_regions
  std::int64_t flat_elements = 0, shard_elements = 0;
};

/// With a tied word matrix a stage that is both first and last has it once.
StageUnits stage_units(const ModelRegions& m, const std::vector<ChunkPart>& chunks, const Sharding& sharding);

/// What the word matrix is used for; a stage adds the gradients of its uses in this order.
enum class WordUse : std::uint8_t { input, decoder_input, mtp_input, output };
/// A stage's uses of its copy of the word matrix, in order. Those behind the first have gradients apart from the other parameters'.
std::vector<WordUse> word_uses(const std::vector<ChunkPart>& chunks, bool tied);
/// Whether the framework has a gradient of each use. Others add all uses' to one: PyTorch's autograd (torch/csrc/autograd/functions/
/// accumulate_grad.h), Megatron-LM's products (main_grad: megatron/core/tensor_parallel/layers.py), llm.c (train_gpt2.cu, grads.wte).
bool word_uses_apart(const Plan& plan);
/// A gradient apart of the word matrix, which lies in `word`'s elements and in `unit`.
ShardUnit word_use_unit(std::int64_t word, const ShardUnit& unit, const Sharding& sharding);

}  // namespace tandem::lowering
