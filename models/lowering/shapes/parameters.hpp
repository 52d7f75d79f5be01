#pragma once
// Which parameters a stage owns and where they lie in its flat buffers.

#include <map>
#include <utility>
#include <vector>

#include "models/lowering/shapes/stage_units.hpp"

namespace tandem::lowering {

/// One region of a stage and its parameters.
struct StageRegion : RegionPlace {
  RegionLayout layout;
};

struct StageParams {
  std::vector<StageRegion> regions;    ///< ascending offset: completion order, experts last
  std::vector<UnitRegions> unit_regions;
  std::vector<ShardUnit> units;        ///< parallel to unit_regions
  std::vector<Param> params;           ///< ascending offset
  std::int64_t flat_elements = 0, shard_elements = 0;
  std::int64_t trained_elements = 0, trained_shard = 0;  ///< the same of the units that are not frozen
  std::int64_t quantized_from = 0;     ///< flat offset of the first quantized unit; flat_elements without any
  std::map<std::pair<RegionKind, std::int64_t>, std::int32_t> region_of;  ///< first index in `regions` by kind and layer

  /// Index of a region; -1 where the stage has none.
  std::int32_t find(RegionKind kind, std::int64_t layer = -1) const;
  /// Index of the region of shared tables (relative bias or positions); -1 where the stage has none.
  std::int32_t tables() const;
};

/// A tied word matrix is also the output matrix. A stage that is both first and last stores it once.
StageParams stage_params(const Shapes& s, const std::vector<ChunkPart>& chunks, const Sharding& sharding);

/// Number of parameter tensors of the whole model. A tied output matrix does not count.
std::int64_t global_parameter_count(const Shapes& s);

}  // namespace tandem::lowering
