#pragma once
// The program of a whole run: its segments in order, each with the task graph it uses.

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "exec/run/learning_rate.hpp"
#include "exec/run/run_context.hpp"
#include "exec/run/run_options.hpp"
#include "exec/state/offloaded.hpp"

namespace tandem::exec {

/// A plan with one batch size, and its task graph.
struct GraphOf {
  const Plan& plan;
  const TaskGraph& graph;
};

/// A segment and the data that its ranks share.
struct ScheduledSegment {
  Segment segment;
  const RunContext* context;
};

class RunSegments {
 public:
  /// Calls `graph_of` for every segment. The plan and graph that it returns must outlive the segments.
  RunSegments(const Plan& plan, const std::function<GraphOf(const Segment&)>& graph_of, const TokenSource& data,
              const RunOptions& options);

  const std::vector<ScheduledSegment>& all() const { return segments_; }
  /// Each task graph's context once, in order of first use.
  std::vector<const RunContext*> contexts() const;
  const Mesh& mesh() const { return segments_.front().context->mesh; }
  /// Arena size in bytes. All graphs of the run share one arena, so it is the largest that any needs.
  Bytes arena_bytes(StageId stage) const;
  /// The layout of offloaded states; nullptr: all states are in the arena.
  std::shared_ptr<const StateLayout> offloaded(StageId stage) const { return offloaded_[stage.index()]; }
  /// Host memory of offloaded activations in bytes: the most that any graph needs.
  Bytes host_activation_bytes(StageId stage) const;
  /// Size in bytes of the memory that holds a rank's states.
  std::size_t state_bytes(StageId stage) const;
  /// The position of step `index` of a training segment, for the learning rate.
  RunProgress progress(const Segment& s, std::int64_t index) const;
  /// Tokens of the run's first `samples` sequences, at least those behind its start.
  std::int64_t tokens_after(std::int64_t samples) const;

 private:
  const RunContext* context(const GraphOf& of, const TokenSource& data);

  std::map<const TaskGraph*, std::unique_ptr<const RunContext>> contexts_;
  std::shared_ptr<const StateLayout> layout(StageId stage) const;

  std::vector<ScheduledSegment> segments_;
  std::vector<std::shared_ptr<const StateLayout>> offloaded_;  ///< by stage
  RunProgress whole_;  ///< the whole run, before its first step
};

}  // namespace tandem::exec
