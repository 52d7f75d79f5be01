#pragma once
// Sizes of a stage's regions, their offsets in its flat buffers, and the units in which gradients are reduced.
// Used by the stage's parameters (parameters.hpp) and by estimates without a task graph (sim/closed_form).
//
// The flat order is the order in which the backward pass completes gradients (head, MTP modules, last layer
// .. first, embedding). So a data-parallel bucket is one contiguous range, reduced while the backward pass
// continues. Experts of expert-parallel ranks come last in the same order: fewer ranks sum their gradients.
// Regions start at multiples of 64 elements, so GradNorm's blocks do not depend on how the model is split.

#include <array>
#include <vector>

#include "models/lowering/shapes/regions.hpp"

namespace tandem::lowering {

/// The layers and other parts of the model in one chunk of a stage.
struct ChunkPart {
  std::int32_t chunk = 0;
  std::int64_t first_layer = 0, layers = 0;
  bool first = false, last = false;    ///< has the embedding / has the head
  bool bridge = false;                 ///< has the decoder's first layer and the bridge before it
  std::int64_t mtp = 0;                ///< MTP modules between the layers and the head

  /// Number of blocks: the layers, then the blocks of MTP modules.
  std::int64_t blocks() const { return layers + mtp; }
};

/// Number of a chunk's layers among the first `limit` layers that its stage runs. `limit` 0: all layers of the chunk.
std::int64_t among_first(const std::vector<ChunkPart>& chunks, const ChunkPart& part, std::int64_t limit);

enum class RegionKind : std::uint8_t {
  head, output, block, experts, bridge, embedding, word, relative, positions, mtp, adapters, expert_adapters, quantized
};
/// Tables used in several places of an encoder-decoder. A micro-batch's gradient is summed over them before it is accumulated.
constexpr bool is_table(RegionKind k) { return k == RegionKind::relative || k == RegionKind::positions; }

/// Elements, rounded up to GradNorm's blocks. 0: the model has no such region.
struct RegionSize {
  std::int64_t elements = 0;
  Replication replication = Replication::data;
};

/// Sizes that determine the regions and units of all stages.
struct ModelRegions {
  std::array<RegionSize, kLayerKinds> blocks;  ///< by LayerKind::index(); set for the model's kinds
  RegionSize head, output, decoder, experts, bridge, embedding, word, relative, positions;  ///< `decoder`: one of its blocks
  RegionSize mtp;                        ///< an MTP module without its block
  std::array<RegionSize, kLayerKinds> adapters;  ///< of a block, by kind; set where all other regions are frozen
  RegionSize expert_adapters;            ///< of a block's experts
  std::array<RegionSize, kLayerKinds> quantized;  ///< frozen matrices of a block, by kind; set where they are quantized
  bool frozen = false;                   ///< only adapters are trained
  std::vector<LayerKind> kinds;          ///< by global layer, then by MTP module
  std::int64_t first_decoder = -1;       ///< global layer; -1: no decoder
  bool tied = false, shared_positions = false;
  bool defer_weights = false;            ///< the backward pass is split
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
  bool copy = false;                   ///< a copy; another stage's is the one in the gradient norm
  bool frozen = false;                 ///< not trained: it has weights only
  Replication replication = Replication::data;
  std::int64_t elements = 0;           ///< rounded up to GradNorm's blocks
  std::int64_t offset = 0;             ///< elements from the start of the flat buffers
  std::int32_t unit = -1;
  std::int64_t unit_offset = 0;        ///< elements from the start of its unit

  bool quantized() const { return kind == RegionKind::quantized; }
};

/// How ZeRO splits gradients, optimizer states and weights among data-parallel ranks.
struct Sharding {
  int zero_stage = 0;
  std::int64_t shards = 1, expert_shards = 1;  ///< equal parts of a unit: without and with experts
  Bytes bucket_bytes;
  bool first_chunk_only = false;     ///< other chunks have one bucket each (StackFacts::buckets_in_first_chunk)
  OffloadSpec offload;               ///< which of them are in host memory
  bool gathers_next = false;         ///< the next step gathers the weights that this step updates
};
Sharding sharding_of(const Plan& plan);

/// Regions [first, first + count) are reduced and sharded together: a bucket.
struct UnitRegions {
  std::int32_t first = 0, count = 0;
};

struct StageUnits {
  std::vector<RegionPlace> regions;    ///< ascending offset: completion order, experts last
  std::vector<UnitRegions> unit_regions;
  std::vector<ShardUnit> units;        ///< parallel to unit_regions; frozen ones last, of these quantized ones
  std::int64_t flat_elements = 0, shard_elements = 0;
  std::int64_t trained_elements = 0, trained_shard = 0;  ///< the same of the units that are not frozen
  std::int64_t quantized_from = 0;     ///< flat offset of the first quantized unit; flat_elements without any
};

/// A stage that is both first and last stores a tied word matrix once.
StageUnits stage_units(const ModelRegions& m, const std::vector<ChunkPart>& chunks, const Sharding& sharding);

/// Uses of the word matrix. A stage accumulates their gradients in this order.
enum class WordUse : std::uint8_t { input, decoder_input, mtp_input, output };
/// A stage's uses of its copy of the word matrix, in order. With `word_uses_apart`, uses after the first have separate gradients.
std::vector<WordUse> word_uses(const std::vector<ChunkPart>& chunks, bool tied);
/// Whether each use has a gradient of its own. Others have one for all: PyTorch's autograd (torch/csrc/autograd/functions/
/// accumulate_grad.h), Megatron-LM (main_grad: megatron/core/tensor_parallel/layers.py), llm.c (train_gpt2.cu, grads.wte).
bool word_uses_apart(const Plan& plan);
/// Size of one separate gradient buffer: `word` elements, or the padded `unit` if ZeRO shards it.
ShardUnit word_use_unit(std::int64_t word, const ShardUnit& unit, const Sharding& sharding);

}  // namespace tandem::lowering
