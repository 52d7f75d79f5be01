#include "models/lowering/stage/stage_transfers.hpp"

#include <utility>

namespace tandem::lowering {

/// Activations arrive before a chunk's first layer and leave after its last one; gradients the other way round.
const TransferTemplates& StageTransfers::templates(const ScheduleEvent& e, const ChunkPart& p) const {
  const bool sends = e.kind == ScheduleEvent::Kind::send;
  const bool in_front = sends == (e.action.phase == Phase::backward);
  return decoder_.transfers(p.first_layer + (in_front ? 0 : p.layers));
}

void StageTransfers::receive(const ScheduleEvent& e, const ChunkPart& p, InFlight& f) {
  const bool forward = e.action.phase == Phase::forward;
  const TransferTemplates& t = templates(e, p);
  const TemplateId recv = t.at(false, e.offset);
  const BufferId buffer = b_.allocate(forward ? "received_hidden" : "received_gradient", MemoryKind::communication,
                                      w_.slot_bytes(recv, "buffer"));
  const std::uint32_t received = b_.add(recv, key(e.action), {{buffer}});
  if (c_.exchanges) {
    last_receive_ = b_.end_of(received);
    waits_for_receive_ = true;
  }
  if (c_.shapes.scatter_p2p) (forward ? f.gather_hidden : f.gather_gradient) = t.gather;
  if (!forward) {
    f.gradient = buffer;
    f.gradient_there = b_.end_of(received);
    return;
  }
  f.hidden.assign(static_cast<std::size_t>(p.layers) + 1, kNoBuffer);
  f.hidden[0] = buffer;
  decoder_.received(p, f);
}

void StageTransfers::send(const ScheduleEvent& e, const ChunkPart& p, InFlight& f) {
  const bool forward = e.action.phase == Phase::forward;
  BufferId& buffer = forward ? f.hidden.back() : f.gradient;
  if (const Point end = std::exchange(f.leaves_after, {}); end.instance() >= 0) b_.after(end);
  const std::uint32_t sent = b_.add(templates(e, p).at(true, e.offset), key(e.action), {{buffer}});
  if (!c_.plan.parallel.overlap_p2p) {
    last_send_ = b_.end_of(sent);
    waits_for_send_ = true;
  }
  (forward ? f.sent_hidden : f.sent_gradient) = buffer;
  buffer = kNoBuffer;
}

void StageTransfers::release(const Action& a, InFlight& f) {
  BufferId& sent = a.phase == Phase::forward ? f.sent_hidden : f.sent_gradient;
  b_.release(sent);
  sent = kNoBuffer;
}

void StageTransfers::before(const Action& a, InFlight& f) {
  const KeptOnHost& on_host = c_.shapes.on_host;
  const bool copies = on_host.kept() || on_host.input;  // a backward pass may begin with a copy from the host, which need not wait
  const auto wait = [&](Point p, bool computation) { computation ? b_.computation_after(p) : b_.after(p); };
  if (waits_for_send_) wait(last_send_, copies);
  if (waits_for_receive_) wait(last_receive_, copies);
  waits_for_send_ = waits_for_receive_ = false;
  if (a.phase != Phase::forward && a.phase != Phase::backward) return;
  const bool forward = a.phase == Phase::forward;
  put_together(a, f);
  // Recomputation needs no gradient, but the backward pass starts only once one has arrived. Weights may be gathered before.
  if (forward || c_.plan.training.recompute == Recompute::none || f.gradient_there.instance() < 0) return;
  wait(f.gradient_there, copies || c_.plan.parallel.zero_stage == 3);
}

void StageTransfers::put_together(const Action& a, InFlight& f) {
  const bool forward = a.phase == Phase::forward;
  TemplateId& gather = forward ? f.gather_hidden : f.gather_gradient;
  if (gather.value() < 0) return;
  const std::uint32_t whole = b_.add(gather, key(a), {{forward ? f.hidden[0] : f.gradient}});
  if (!forward) f.gradient_there = b_.end_of(whole);
  gather = {};
}

}  // namespace tandem::lowering
