#pragma once
// One rank during a whole run. Its resources stay; its executor changes with the task graph.

#include <functional>
#include <memory>
#include <optional>

#include "exec/run/executor.hpp"
#include "exec/run/run_segments.hpp"
#include "exec/state/saved_state.hpp"

namespace tandem::exec {

class RankSession {
 public:
  /// `failed`: see RankExecutor.
  RankSession(RankParts parts, std::function<void(Rank)> failed) : parts_(std::move(parts)), failed_(std::move(failed)) {}

  /// Returns the executor of the segment's graph. Replaces the executor of another graph. Call it on the rank's thread.
  RankExecutor& enter(const ScheduledSegment& scheduled);
  /// Cancels the waits of the rank's executor, if there is one.
  void cancel();

  Rank rank() const { return parts_.rank; }
  /// The loss scale at the start of the rank's next step.
  ScaleState& scale() { return scale_; }
  /// The rank's share of the parameters, laid out as in `context`.
  RankState state(const RunContext& context) const;
  /// Notes of the executor, which must exist.
  std::vector<std::string> notes() const { return executor_->notes(); }
  const Memory& states() const { return parts_.state_memory(); }

  /// Keeps the spans of the last step, which was recorded.
  void keep_lane() { lane_ = executor_->lane(); }
  const std::optional<Lane>& lane() const { return lane_; }
  /// Ends the executor and returns the counters. Issue orders are those of the last training step.
  RankBooks books();

 private:
  void leave();

  RankParts parts_;
  std::function<void(Rank)> failed_;
  const RunContext* context_ = nullptr;  ///< the executor's
  Segment::Kind kind_ = Segment::Kind::train;
  std::unique_ptr<RankExecutor> executor_;
  std::optional<Lane> lane_;
  ScaleState scale_;
  RankBooks books_;
};

}  // namespace tandem::exec
