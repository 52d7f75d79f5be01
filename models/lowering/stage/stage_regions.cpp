#include "models/lowering/stage/stage_regions.hpp"

#include <algorithm>
#include <initializer_list>

namespace tandem::lowering {
namespace {

std::vector<std::int32_t> some(std::initializer_list<std::int32_t> regions) {
  std::vector<std::int32_t> found;
  for (const std::int32_t r : regions)
    if (r >= 0) found.push_back(r);
  return found;
}

}  // namespace

StageRegions::StageRegions(const StageMemory& memory, const DecoderFlow& decoder, const std::vector<ChunkPart>& chunks,
                           bool modules)
    : memory_(memory), decoder_(decoder), modules_(modules) {
  for (const ChunkPart& p : chunks) {
    layers_.resize(std::max(layers_.size(), static_cast<std::size_t>(p.first_layer + p.blocks())));
    for (std::int64_t l = p.first_layer; l < p.first_layer + p.blocks(); ++l)
      layers_[static_cast<std::size_t>(l)] =
          some({find(RegionKind::block, l), find(RegionKind::quantized, l), find(RegionKind::adapters, l),
                find(RegionKind::experts, l), find(RegionKind::expert_adapters, l), find(RegionKind::relative)});
  }
}

/// With MTP modules its norm is read before it.
std::vector<std::int32_t> StageRegions::head(const ChunkPart& p) const {
  const bool whole = modules(p) == 0 || memory_.head_has_bias();
  return some({whole ? find(RegionKind::head) : -1, memory_.output_region()});
}

void StageRegions::add_modules(WeightGather::Needs& needs, const ChunkPart& p) const {
  if (modules(p) > 0) needs.push_back({find(RegionKind::head)});
  const std::int64_t first = p.first_layer + p.layers;
  for (std::int64_t l = first; l < first + modules(p); ++l) {
    const std::int32_t module = find(RegionKind::mtp, l);
    needs.push_back({memory_.word_region(), module});
    needs.push_back(layer(l));
    needs.push_back({module});
  }
}

void StageRegions::add_modules_backward(WeightGather::Needs& needs, const ChunkPart& p) const {
  const std::int64_t first = p.first_layer + p.layers;
  for (std::int64_t l = first + modules(p); l-- > first;) {
    const std::int32_t module = find(RegionKind::mtp, l);
    needs.push_back({module});
    needs.push_back(layer(l));
    needs.push_back({module});
  }
  if (modules(p) > 0) needs.push_back({find(RegionKind::head)});
}

WeightGather::Needs StageRegions::forward(const ChunkPart& p) const {
  WeightGather::Needs needs;
  const std::int32_t positions = find(RegionKind::positions);
  if (p.first) needs.push_back(some({find(RegionKind::word), find(RegionKind::embedding), positions}));
  for (std::int64_t l = 0; l < p.layers; ++l) {
    if (decoder_.bridge_before(p, l)) needs.push_back(some({find(RegionKind::bridge), memory_.word_region(), positions}));
    needs.push_back(layer(p.first_layer + l));
  }
  add_modules(needs, p);
  if (p.last) needs.push_back(head(p));
  return needs;
}

WeightGather::Needs StageRegions::backward(const ChunkPart& p) const {
  WeightGather::Needs needs;
  if (p.last) needs.push_back(head(p));
  add_modules_backward(needs, p);
  for (std::int64_t l = p.layers; l-- > 0;) {
    needs.push_back(layer(p.first_layer + l));
    if (decoder_.bridge_before(p, l)) needs.push_back({find(RegionKind::bridge)});
  }
  const std::int32_t embedding = find(RegionKind::embedding);
  if (p.first && embedding >= 0 && !memory_.only_adapters()) needs.push_back({embedding});
  return needs;
}

std::vector<std::int64_t> StageRegions::backward_reads(const ChunkPart& p, const StageBlocks& blocks) const {
  std::vector<std::int64_t> times;
  if (p.last) times.push_back(1);
  for (std::int64_t l = p.layers + modules(p); l-- > p.layers;) times.insert(times.end(), {1, blocks.recomputed(p, l) ? 2 : 1, 1});
  if (modules(p) > 0) times.push_back(1);
  for (std::int64_t l = p.layers; l-- > 0;) {
    times.push_back(blocks.recomputed(p, l) ? 2 : 1);
    if (decoder_.bridge_before(p, l)) times.push_back(1);
  }
  if (p.first && find(RegionKind::embedding) >= 0 && !memory_.only_adapters()) times.push_back(1);
  return times;
}

}  // namespace tandem::lowering
