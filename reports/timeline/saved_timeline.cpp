#include "reports/timeline/saved_timeline.hpp"

#include <map>
#include <tuple>
#include <variant>

#include "models/base/error.hpp"
#include "models/ops/collective.hpp"
#include "reports/timeline/task_payload.hpp"

namespace tandem {

namespace {

std::string group_name(const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  return collective ? std::string(name(collective->group)) : std::string();
}

/// The kind of an operation; collectives have a kind each, such as all_gather.
std::string kind_of(const Op& op) { return std::string(is_communication(op) ? communication_name(op) : kind_name(op)); }

SavedTask saved_task(const Template& block, const Task& task, Bytes payload, Flops flops) {
  return {block.name, task.name, kind_of(task.op), std::string(name(task.stream)), group_name(task.op), payload, flops};
}

/// Numbers pairs of a template task and its FLOPs in order of first appearance.
class TaskTable {
 public:
  TaskTable(const TaskGraph& graph, const TaskPayload& payload, const Routing* routing, std::vector<SavedTask>& tasks)
      : graph_(graph), payload_(payload), routing_(routing), tasks_(tasks) {}

  std::uint32_t index(Rank rank, const Instance& instance, std::uint16_t task) {
    const Template& block = graph_.of(instance);
    require(task < block.tasks.size(), "a timeline's span names a task that its template lacks");
    const Op& op = block.tasks[task].op;
    const bool sized = routing_ != nullptr && follows_routing(op);
    const Flops flops = sized ? matrix_flops(routing_->sized(op, rank, instance)) : Flops();
    const auto next = static_cast<std::uint32_t>(tasks_.size());
    const auto [at, added] = indices_.try_emplace({instance.tmpl, task, flops.count()}, next);
    if (added) tasks_.push_back(saved_task(block, block.tasks[task], payload_.of(op), sized ? flops : matrix_flops(op)));
    return at->second;
  }

 private:
  const TaskGraph& graph_;
  const TaskPayload& payload_;
  const Routing* routing_;
  std::vector<SavedTask>& tasks_;
  std::map<std::tuple<TemplateId, std::uint16_t, std::int64_t>, std::uint32_t> indices_;
};

SavedLane saved_lane(const Lane& lane, const Program& program, TaskTable& table) {
  SavedLane out{lane.coords, lane.ranks, lane.arena_bytes, {}, lane.routing};
  out.spans.reserve(lane.spans.size());
  for (const Span& s : lane.spans) {
    require(s.instance < program.instances.size(), "a timeline's span names an instance that its program lacks");
    const Instance& i = program.instances[s.instance];
    out.spans.push_back({table.index(Rank(lane.ranks.front()), i, s.task), i.layer, i.micro_batch, i.chunk,
                         static_cast<std::int32_t>(i.phase), s.issued, s.ready, s.started, s.ended});
  }
  return out;
}

}  // namespace

SavedTimeline saved(const Timeline& timeline, const TaskGraph& graph, const Routing* routing) {
  SavedTimeline out{timeline.performer, timeline.plan_json, timeline.step_time, {}, {}, {}};
  for (std::size_t p = 0; p < kPhases; ++p) out.phases.emplace_back(name(static_cast<Phase>(p)));
  const TaskPayload payload(timeline.plan_json);
  TaskTable table(graph, payload, routing, out.tasks);
  for (const Lane& lane : timeline.lanes) {
    const Program& program = graph.program(StageId(lane.coords[Axis::pp]));
    out.lanes.push_back(saved_lane(lane, program, table));
  }
  return out;
}

}  // namespace tandem
