#pragma once
// A rank through a whole run: what it owns stays, and the executor changes with the graph.

#include <functional>
#include <memory>
#include <optional>

#include "exec/run/executor.hpp"
#include "exec/run/script.hpp"
#include "exec/state/saved_state.hpp"

namespace tandem::exec {

class RankSession {
 public:
  /// `failed` as in RankExecutor.
  RankSession(RankParts parts, std::function<void(Rank)> failed) : parts_(std::move(parts)), failed_(std::move(failed)) {}

  /// The executor of an act; the one of another graph is left. On the rank's thread.
  RankExecutor& enter(const Act& act);
  /// Wakes the rank's waits, if it has any.
  void cancel();

  Rank rank() const { return parts_.rank; }
  /// The loss scale that the rank's next step begins with.
  ScaleState& scale() { return scale_; }
  /// What the rank keeps, as `context` has it.
  RankState state(const RunContext& context) const;
  /// Of its executor; there must be one.
  std::vector<std::string> notes() const { return executor_->notes(); }
  const Memory& states() const { return parts_.state_memory(); }

  /// Keeps the spans of the step just done.
  void keep_lane() { lane_ = executor_->lane(); }
  const std::optional<Lane>& lane() const { return lane_; }
  /// Leaves the executor. The orders are those of the last training step.
  RankBooks books();

 private:
  void leave();

  RankParts parts_;
  std::function<void(Rank)> failed_;
  const RunContext* context_ = nullptr;  ///< of the executor
  Segment::Kind kind_ = Segment::Kind::train;
  std::unique_ptr<RankExecutor> executor_;
  std::optional<Lane> lane_;
  ScaleState scale_;
  RankBooks books_;
};

}  // namespace tandem::exec
