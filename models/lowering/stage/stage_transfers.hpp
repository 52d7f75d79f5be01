#pragma once
// A stage's sends and receives: their buffers, their instances, and the computations that wait for them.

#include "models/lowering/stage/decoder_flow.hpp"
#include "models/lowering/stage/in_flight.hpp"
#include "models/schedule/schedule.hpp"

namespace tandem::lowering {

class StageTransfers {
 public:
  StageTransfers(const StageContext& c, ProgramBuilder& b, const InstanceWriter& w, DecoderFlow& decoder)
      : c_(c), b_(b), w_(w), decoder_(decoder) {}

  /// Receives the input of an action into a new buffer of `f`.
  void receive(const ScheduleEvent& e, const ChunkPart& p, InFlight& f);
  /// Sends the output of an action. Its buffer leaves `f`.
  void send(const ScheduleEvent& e, const ChunkPart& p, InFlight& f);
  /// Allows reuse of the buffer that `a` sent.
  void release(const Action& a, InFlight& f);
  /// Called before a computation. The computation waits for the last send if sends do not overlap, and for the last receive
  /// if both are one exchange. Received shares are gathered here; earlier, the tensor stream would wait for the sender.
  void before(const Action& a, InFlight& f);
  void show(RepeatDetector& r) {
    r.point(last_send_);
    r.point(last_receive_);
    r.number((waits_for_send_ ? 1 : 0) + (waits_for_receive_ ? 2 : 0));
  }

 private:
  static InstanceKey key(const Action& a) { return {-1, a.micro_batch, a.chunk, a.phase}; }
  void put_together(const Action& a, InFlight& f);
  const TransferTemplates& templates(const ScheduleEvent& e, const ChunkPart& p) const;

  const StageContext& c_;
  ProgramBuilder& b_;
  const InstanceWriter& w_;
  DecoderFlow& decoder_;
  Point last_send_, last_receive_;
  bool waits_for_send_ = false, waits_for_receive_ = false;  ///< whether the next computation waits for the last send, receive
};

}  // namespace tandem::lowering
