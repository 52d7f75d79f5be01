// Peak memory of a plan's ranks, without its task graph.

#include <algorithm>

#include "models/lowering/stage/update_spec.hpp"
#include "models/lowering/templates/update_ops.hpp"
#include "sim/closed_form/step_estimate.hpp"

namespace tandem::sim::closed_form {

/// What lives for the whole step, plus the largest of the passes, the update and the states from the host.
Bytes StepEstimate::memory(const std::vector<Tail>& tails) {
  const std::vector<Bytes>& runtime = in_.runtime.of(in_.plan, tied_);
  const DType weights = in_.shapes.stored_weights();
  const std::vector<lowering::OptimizerState> states =
      lowering::optimizer_states(update_of(tails.front()).optimizer, weights, in_.shapes);
  const auto of_states = [&](std::int64_t elements) {
    Bytes sum;
    for (const lowering::OptimizerState& state : states) sum += bytes_of(state.type, elements);
    return sum;
  };
  Bytes most;
  const std::int64_t gradients = buckets_.copies ? 2 : 1;
  for (std::int64_t s = 0; s < p_; ++s) {
    const Tail& t = tails[static_cast<std::size_t>(s)];
    const std::int64_t updated = update_of(t).state_elements;
    Bytes sum = bytes_of(weights, t.flat) + gradients * bytes_of(dtypes_.gradients, t.flat) + of_states(updated) + in_.layer.apart +
                runtime[static_cast<std::size_t>(s)];
    if (stages_[static_cast<std::size_t>(s)].back().last) sum += in_.layer.kept_logits;
    if (uses_apart_ && p_ > 1) sum += bytes_of(dtypes_.gradients, word_unit_.elements);
    const Bytes update(in_.shapes.fusion.step_bytes * updated);
    most = std::max(most, sum + std::max({update, of_states(t.host.together), passing(s)}));
  }
  return most;
}

/// Bytes of a stage's passes: what the most micro-batches in flight keep, plus one pass. A stage with the head counts as the small
/// model plus what it holds more.
Bytes StepEstimate::passing(std::int64_t s) {
  const ChunkParts& chunks = stages_[static_cast<std::size_t>(s)];
  const std::int64_t held = in_.schedules.most_held(kind_, shape_, s);
  Bytes again;
  if (recompute_layers_ >= 0 || shape_.pairs)  // a pair's forward pass takes a layer before its backward pass frees one
    for (std::size_t k = 0; k < kLayerKinds; ++k)
      if (kinds_.has(k)) again = std::max(again, in_.layer.blocks[k].saved);
  const Bytes pass = held * kept(chunks) + again + 2 * in_.layer.hidden + in_.layer.scratch;
  if (!chunks.back().last) return pass;
  const bool all = kind_ == ScheduleKind::gpipe || kind_ == ScheduleKind::breadth_first;  // all forward passes come first
  const Bytes more = held * kept(chunks) - kept_by_small() + (all ? m_ - 1 : 0) * in_.layer.head;
  return std::max(pass, in_.layer.passing + more);
}

/// Most bytes that a chunk keeps of a micro-batch.
Bytes StepEstimate::kept(const ChunkParts& chunks) const {
  Bytes most;
  for (const lowering::ChunkPart& c : chunks) {
    const std::int64_t again = recomputed(chunks, c);
    const std::int64_t saved =
        layer_sum(c.first_layer + again, c.layers - again, [](const BlockTimes& b) { return b.saved.count(); });
    // Every layer's input, and the last layer's output; other chunks' outputs are sent on.
    most = std::max(most, (c.layers + (c.last ? 1 : 0)) * in_.layer.hidden + Bytes(saved));
  }
  return most;
}

/// Bytes that the small model of LayerTimes keeps of a micro-batch.
Bytes StepEstimate::kept_by_small() const {
  const std::vector<std::size_t>& kinds = in_.layer.small_kinds;
  const auto layers = static_cast<std::int64_t>(kinds.size());
  const lowering::ChunkPart small{0, 0, layers, true, true, false};
  Bytes sum = (layers + 1) * in_.layer.hidden;
  for (std::int64_t l = recomputed({small}, small); l < layers; ++l)
    sum += in_.layer.blocks[kinds[static_cast<std::size_t>(l)]].saved;
  return sum;
}

}  // namespace tandem::sim::closed_form
