#include "models/lowering/stage/stage_chunks.hpp"

namespace tandem::lowering {

std::vector<std::vector<ChunkPart>> stage_chunks(const Plan& plan) {
  const auto layers = plan.layers_per_stage();
  const auto stages = static_cast<std::size_t>(plan.parallel.pipeline);
  std::vector<std::vector<ChunkPart>> chunks(stages);
  const std::int64_t decoder = plan.model.num_decoder_layers > 0 ? plan.model.num_layers : 0;  // its first layer
  std::int64_t first = 0;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const std::int64_t stage = stage_of_part(plan.parallel.schedule, plan.parallel.pipeline, static_cast<std::int64_t>(k));
    ChunkPart part{static_cast<std::int32_t>(k / stages), first, layers[k], k == 0, k + 1 == layers.size(),
                   decoder > 0 && first <= decoder && decoder < first + layers[k]};
    if (part.last) part.mtp = plan.model.mtp.num_layers;
    chunks[static_cast<std::size_t>(stage)].push_back(part);
    first += layers[k];
  }
  return chunks;
}

}  // namespace tandem::lowering
