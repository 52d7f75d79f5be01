#pragma once
// Which parameters a stage owns and where they lie in its flat buffers.
//
// The flat order is the order in which the backward pass completes gradients (head, last layer .. first, embedding), so a
// data-parallel bucket is one contiguous range that can leave while the rest is still being computed. Experts of expert ranks, whose
// gradients are summed over fewer of them, follow everything else in the same order. Regions start at multiples of 64
// elements, so the blocks of which norms are summed do not depend on the split.

#include <map>
#include <utility>
#include <vector>

#include "models/lowering/shapes/regions.hpp"

namespace tandem::lowering {

/// What one chunk of a stage holds.
struct ChunkPart {
  std::int32_t chunk = 0;
  std::int64_t first_layer = 0, layers = 0;
  bool first = false, last = false;    ///< has the embedding / has the head
  bool bridge = false;                 ///< has the decoder's first layer, and what stands before it
};

enum class RegionKind : std::uint8_t { head, output, block, experts, bridge, embedding, word, relative, positions };
/// Tables that several places of an encoder-decoder add to: a micro-batch's gradient is complete before it joins the others'.
constexpr bool is_table(RegionKind k) { return k == RegionKind::relative || k == RegionKind::positions; }

/// One region of a stage in its flat buffers.
struct StageRegion {
  RegionKind kind;
  std::int32_t chunk = 0;
  std::int64_t layer = -1;             ///< global
  RegionLayout layout;
  bool copy = false;                   ///< another stage's counts
  std::int64_t offset = 0, elements = 0;  ///< flat; elements rounded up to whole blocks
  std::int32_t unit = -1;
  std::int64_t unit_offset = 0;        ///< elements from the start of its unit
};

/// How gradients, states and weights are shared out among data-parallel ranks.
struct Sharding {
  int zero_stage = 0;
  std::int64_t shards = 1, expert_shards = 1;  ///< parts of a unit of ordinary parameters and of experts
  Bytes bucket_bytes;
};

/// Regions [first, first + count) leave and are sharded together: a bucket.
struct UnitRegions {
  std::int32_t first = 0, count = 0;
};

struct StageParams {
  std::vector<StageRegion> regions;    ///< ascending offset: completion order, experts behind the others
  std::vector<UnitRegions> unit_regions;
  std::vector<ShardUnit> units;        ///< parallel to unit_regions
  std::vector<Param> params;           ///< ascending offset
  std::int64_t flat_elements = 0, shard_elements = 0;
  std::map<std::pair<RegionKind, std::int64_t>, std::int32_t> region_of;  ///< by kind and layer, the first of `regions`

  /// Index of a region; -1 where the stage has none.
  std::int32_t find(RegionKind kind, std::int64_t layer = -1) const;
  /// The region of tables; -1 where the stage has none.
  std::int32_t tables() const;
};

/// `tied`: the word matrix is the output matrix; a stage that is both first and last has it once.
StageParams stage_params(const Shapes& s, const std::vector<ChunkPart>& chunks, const Sharding& sharding);

/// Number of parameter tensors of the whole model. A tied output matrix is not one.
std::int64_t global_parameter_count(const Shapes& s);

}  // namespace tandem::lowering
