#include "models/lowering/stage/stage_order.hpp"

namespace tandem::lowering {

LayerWork layer_work(const BlockTemplates& block, const TemplateLibrary& library) {
  const Template &forward = library[block.forward], &backward = library[block.backward.later];
  const std::int64_t input = slot_bytes(forward, "x"), inputs = slot_bytes(forward, "weight_inputs");
  LayerWork w;
  w.pass.forward = nominal_work(forward);
  w.pass.backward = nominal_work(backward);
  w.pass.weight = nominal_work(library[block.weights.later]);
  w.pass.held = input;
  w.pass.deferred = input + inputs + slot_bytes(backward, "deferred");
  w.again = nominal_work(library[block.again]);
  w.kept = slot_bytes(forward, "saved") + inputs;
  return w;
}

EndWork end_work(const Templates& t, const TemplateLibrary& library) {
  EndWork w;
  w.embedding.forward = nominal_work(library[t.embed_forward]);
  w.embedding.backward = nominal_work(library[t.embed_backward.later]);
  w.head.forward = nominal_work(library[t.head_forward.later]);
  w.head.backward = nominal_work(library[t.head_backward.later]);
  if (t.metrics.value() >= 0) w.head.backward += nominal_work(library[t.metrics]);
  w.transfer = nominal_work(library[t.transfer.send_forward]);
  if (t.mtp.forward.value() < 0) return w;
  const auto work = [&](TemplateId id) { return nominal_work(library[id]); };
  w.head.forward += work(t.mtp.final_norm_forward);
  w.head.backward += work(t.mtp.final_norm_backward.later) + work(t.mtp.words.later);
  w.module.forward = work(t.mtp.forward) + work(t.mtp.norm_forward);
  w.module.backward = work(t.mtp.backward.later) + work(t.mtp.norm_backward.later);
  return w;
}

void add_layers(PassWork& sum, const LayerWork& layer, std::int64_t layers, std::int64_t recomputed) {
  sum.forward += layers * layer.pass.forward;
  sum.backward += layers * layer.pass.backward + recomputed * layer.again;
  sum.weight += layers * layer.pass.weight;
  sum.held += layers * layer.pass.held + (layers - recomputed) * layer.kept;
  sum.deferred += layers * layer.pass.deferred;
}

void add_ends(PassWork& sum, const EndWork& ends, const ChunkPart& part) {
  sum.transfer = ends.transfer;
  for (const auto& [there, end] : {std::pair(part.first, &ends.embedding), std::pair(part.last, &ends.head)}) {
    if (!there) continue;
    sum.forward += end->forward;
    sum.backward += end->backward;
  }
  sum.forward += part.mtp * ends.module.forward;
  sum.backward += part.mtp * ends.module.backward;
}

ScheduleShape shape_of(const Plan& plan, const std::vector<PassWork>& work) {
  ScheduleShape plain{plan.parallel.pipeline, plan.micro_batches(), plan.parallel.virtual_pipeline};
  plain.exchanges = !plan.parallel.overlap_p2p;
  plain.pairs = plan.runs_pairs();
  plain.folded = folds(plan.parallel.schedule);
  if (work.empty()) return plain;
  ScheduleShape shape = with_costs(plain, work);
  shape.steps_overlap = plan.parallel.optimizer_sync == OptimizerSync::post_validated;
  return shape;
}

}  // namespace tandem::lowering
