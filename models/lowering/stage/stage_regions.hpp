#pragma once
// Which parameter regions a pass reads, in order. ZeRO 3 gathers these.

#include <vector>

#include "models/lowering/stage/decoder_flow.hpp"
#include "models/lowering/stage/stage_blocks.hpp"
#include "models/lowering/stage/weight_gather.hpp"

namespace tandem::lowering {

class StageRegions {
 public:
  /// `modules`: whether MTP modules run.
  StageRegions(const StageMemory& memory, const DecoderFlow& decoder, const std::vector<ChunkPart>& chunks, bool modules);

  /// A block's regions: its own, its quantized matrices, its adapters', its experts', their adapters', tables of relative bias. `l` counts layers, then modules.
  const std::vector<std::int32_t>& layer(std::int64_t l) const { return layers_[static_cast<std::size_t>(l)]; }

  /// Regions that are read together, in order of use.
  WeightGather::Needs forward(const ChunkPart& p) const;
  WeightGather::Needs backward(const ChunkPart& p) const;
  /// How often each use of `backward` reads its parameters: twice for a recomputed layer, else once.
  std::vector<std::int64_t> backward_reads(const ChunkPart& p, const StageBlocks& blocks) const;

 private:
  std::int32_t find(RegionKind kind, std::int64_t layer = -1) const { return memory_.params().find(kind, layer); }
  std::int64_t modules(const ChunkPart& p) const { return modules_ ? p.mtp : 0; }
  std::vector<std::int32_t> head(const ChunkPart& p) const;
  void add_modules(WeightGather::Needs& needs, const ChunkPart& p) const;
  void add_modules_backward(WeightGather::Needs& needs, const ChunkPart& p) const;

  const StageMemory& memory_;
  const DecoderFlow& decoder_;
  bool modules_;
  std::vector<std::vector<std::int32_t>> layers_;  ///< by layer; empty for layers of other stages
};

}  // namespace tandem::lowering
