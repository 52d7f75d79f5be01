#pragma once
// What a run does from its beginning to its end: its segments in order, each with what its ranks share.

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "exec/run/learning_rate.hpp"
#include "exec/run/run_context.hpp"
#include "exec/run/run_options.hpp"
#include "exec/state/offloaded.hpp"

namespace tandem::exec {

/// A plan of one batch size, and its graph.
struct GraphOf {
  const Plan& plan;
  const TaskGraph& graph;
};

/// A segment on its stage.
struct Act {
  Segment segment;
  const RunContext* context;
};

class Script {
 public:
  /// `graph_of` is asked for every segment; what it gives must stay.
  Script(const Plan& plan, const std::function<GraphOf(const Segment&)>& graph_of, const TokenSource& data,
         const RunOptions& options);

  const std::vector<Act>& acts() const { return acts_; }
  /// Every graph once, with the first act's first.
  std::vector<const RunContext*> contexts() const;
  const Mesh& mesh() const { return acts_.front().context->mesh; }
  /// The largest arena of any graph, which all of them use.
  Bytes arena_bytes(StageId stage) const;
  /// Where what is offloaded lies; nothing: all is in the arena.
  std::shared_ptr<const StateLayout> offloaded(StageId stage) const { return offloaded_[stage.index()]; }
  /// Of what a rank keeps its states in.
  std::size_t state_bytes(StageId stage) const;
  /// Step `index` of a training segment as the learning rate sees it.
  RunProgress progress(const Segment& s, std::int64_t index) const;

 private:
  const RunContext* context(const GraphOf& of, const TokenSource& data);

  std::map<const TaskGraph*, std::unique_ptr<const RunContext>> contexts_;
  std::shared_ptr<const StateLayout> layout(StageId stage) const;

  std::vector<Act> acts_;
  std::vector<std::shared_ptr<const StateLayout>> offloaded_;  ///< by stage
  RunProgress whole_;  ///< of the run, before its first step
};

}  // namespace tandem::exec
