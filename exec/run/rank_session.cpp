#include "exec/run/rank_session.hpp"

#include <algorithm>

namespace tandem::exec {

RankExecutor& RankSession::enter(const ScheduledSegment& scheduled) {
  if (context_ == scheduled.context) return *executor_;
  leave();
  executor_ = std::make_unique<RankExecutor>(*scheduled.context, parts_, failed_);
  context_ = scheduled.context;
  kind_ = scheduled.segment.kind;
  return *executor_;
}

void RankSession::leave() {
  if (!executor_) return;
  executor_->settle();
  RankBooks left = executor_->books();
  left.arena_touched_bytes = std::max(left.arena_touched_bytes, books_.arena_touched_bytes);
  if (kind_ == Segment::Kind::evaluate) {
    left.issue_order = std::move(books_.issue_order);
    left.stream_order = std::move(books_.stream_order);
  }
  books_ = std::move(left);
  executor_.reset();
  context_ = nullptr;
}

void RankSession::cancel() {
  if (executor_) executor_->cancel();
}

RankState RankSession::state(const RunContext& context) const {
  const auto stage = StageId(context.mesh.coords(rank())[Axis::pp]);
  RankState mine = rank_state(context.graph.program(stage), context.mesh, rank(), &parts_.state_memory());
  mine.offloaded = parts_.states ? &parts_.states->layout() : nullptr;
  return mine;
}

RankBooks RankSession::books() {
  leave();
  return books_;
}

}  // namespace tandem::exec
