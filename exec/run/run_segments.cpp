#include "exec/run/run_segments.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/graph/host_activations.hpp"
#include "models/plan/data_shape.hpp"

namespace tandem::exec {
namespace {

std::vector<StepOrder> orders(const TaskGraph& graph) {
  std::vector<StepOrder> all;
  for (const auto& program : graph.programs) all.emplace_back(graph, program);
  return all;
}

/// Even a run of 0 steps needs one segment, because its initial values can be gathered.
std::vector<Segment> training_of(const Plan& plan, const RunOptions& options) {
  if (options.steps <= 0) return {{Segment::Kind::train, plan.training.global_batch_size, 0, 0, 0}};
  if (options.resume == nullptr) return segments(plan, options.steps);
  const StateFacts& behind = options.resume->facts();
  return segments(plan, options.steps, {behind.steps, behind.samples});
}

std::vector<Segment> all_of(const Plan& plan, const std::vector<Segment>& training, const RunOptions& options) {
  if (options.only_evaluate > 0)
    return {{Segment::Kind::evaluate, data_shape(plan).global_batch_size, options.only_evaluate, 0, 0}};
  const std::int64_t done = options.resume != nullptr ? options.resume->facts().steps : 0;
  return from_step(with_evaluations(plan, training, options.evaluation), done);
}

/// See RunProgress::other_tokens.
std::int64_t other_tokens(const Plan& plan, const SavedState* resume) {
  return resume == nullptr ? 0 : resume->facts().tokens - resume->facts().samples * plan.sequence_tokens();
}

}  // namespace

RunSegments::RunSegments(const Plan& plan, const std::function<GraphOf(const Segment&)>& graph_of, const TokenSource& data,
                         const RunOptions& options) {
  const bool evaluates = options.evaluation.every > 0 || options.only_evaluate > 0;
  require(!evaluates || options.evaluation_data != nullptr, "an evaluation without data");
  const auto training = training_of(plan, options);
  require(options.only_evaluate == 0 || (options.steps == 0 && options.resume == nullptr), "an evaluation that trains");
  for (const Segment& s : all_of(plan, training, options))
    segments_.push_back({s, context(graph_of(s), s.kind == Segment::Kind::evaluate ? *options.evaluation_data : data)});
  for (const Program& p : segments_.front().context->graph.programs) offloaded_.push_back(layout(p.stage));
  const Segment& last = training.back();
  whole_ = {0, options.steps, 0, 1, last.first_sample + last.steps * last.global_batch_size, data_shape(plan).seq_length,
            other_tokens(plan, options.resume)};
}

const RunContext* RunSegments::context(const GraphOf& of, const TokenSource& data) {
  auto& place = contexts_[&of.graph];
  if (!place)
    place.reset(new RunContext{of.plan, of.graph, data, make_mesh(of.plan), orders(of.graph), input_slots(of.graph)});
  return place.get();
}

std::vector<const RunContext*> RunSegments::contexts() const {
  std::vector<const RunContext*> all;
  for (const ScheduledSegment& a : segments_)
    if (std::find(all.begin(), all.end(), a.context) == all.end()) all.push_back(a.context);
  return all;
}

Bytes RunSegments::arena_bytes(StageId stage) const {
  Bytes most;
  for (const auto& [graph, context] : contexts_) most = std::max(most, graph->program(stage).memory.arena_bytes);
  return most;
}

/// An evaluation graph has no optimizer states. So the graph with the most offloaded tensors defines the layout.
std::shared_ptr<const StateLayout> RunSegments::layout(StageId stage) const {
  std::shared_ptr<const StateLayout> most;
  for (const auto& [graph, context] : contexts_) {
    HostArena host(*graph, graph->program(stage));
    if (host.tensors().size() > (most ? most->host().tensors().size() : 0))
      most = std::make_shared<const StateLayout>(graph->program(stage), std::move(host), arena_bytes(stage).count());
  }
  return most;
}

Bytes RunSegments::host_activation_bytes(StageId stage) const {
  Bytes most;
  for (const auto& [graph, context] : contexts_) most = std::max(most, HostActivations(*graph, graph->program(stage)).bytes());
  return most;
}

std::size_t RunSegments::state_bytes(StageId stage) const {
  const auto offloaded = this->offloaded(stage);
  return static_cast<std::size_t>(offloaded ? offloaded->bytes() : arena_bytes(stage).count());
}

std::int64_t RunSegments::tokens_after(std::int64_t samples) const {
  return samples * segments_.front().context->plan.sequence_tokens() + whole_.other_tokens;
}

RunProgress RunSegments::progress(const Segment& s, std::int64_t index) const {
  RunProgress p = whole_;
  p.step = s.first_step + index;
  p.samples = s.first_sample + index * s.global_batch_size;
  p.step_samples = s.global_batch_size;
  return p;
}

}  // namespace tandem::exec
