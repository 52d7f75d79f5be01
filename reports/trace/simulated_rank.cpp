#include "reports/trace/simulated_rank.hpp"

#include <algorithm>
#include <utility>

namespace tandem {

namespace {

bool is_point_to_point(const SavedTask& t) { return t.kind == "send" || t.kind == "recv"; }
bool is_communication(const SavedTask& t) { return is_point_to_point(t) || !t.group.empty(); }
std::string group_of(const SavedTask& t) { return is_point_to_point(t) ? "pipeline" : t.group; }

/// The facts that all spans of a task share.
struct TaskFacts {
  bool communicates = false;
  std::string cls;
  CollectiveKey key;
};

std::vector<TaskFacts> facts_of(const SavedTimeline& t, const GroupNames& groups, const TraceRules& rules) {
  std::vector<TaskFacts> out;
  for (const SavedTask& task : t.tasks) {
    TaskFacts facts{is_communication(task), "", {}};
    if (facts.communicates) facts.key = {task.kind, group_of(task), groups.size(group_of(task)), task.payload.count()};
    facts.cls = facts.communicates ? communication_class(facts.key.group) : rules.task_class(task);
    out.push_back(std::move(facts));
  }
  return out;
}

}  // namespace

const SavedLane* lane_of(const SavedTimeline& timeline, std::int64_t rank) {
  for (const SavedLane& lane : timeline.lanes)
    if (std::find(lane.ranks.begin(), lane.ranks.end(), rank) != lane.ranks.end()) return &lane;
  return nullptr;
}

UsedGroups used_groups(const SavedTimeline& timeline, const SavedLane& lane) {
  UsedGroups out;
  for (const SavedSpan& s : lane.spans)
    if (const SavedTask& t = timeline.tasks[s.task]; is_communication(t)) out[group_of(t)].insert(t.kind);
  return out;
}

RankStep simulated_step(const SavedTimeline& timeline, const SavedLane& lane, const Mesh& mesh, const TraceRules& rules) {
  const GroupNames groups(mesh, Rank(lane.ranks.front()), {});
  const std::vector<TaskFacts> facts = facts_of(timeline, groups, rules);
  RankStep out;
  std::vector<Interval> computation, communication;
  for (const SavedSpan& s : lane.spans) {
    const TaskFacts& f = facts[s.task];
    if (f.communicates && (f.key.group_size < 2 || f.key.bytes == 0)) continue;
    const Duration from = f.communicates ? s.ready : s.started;
    const double seconds = (s.ended - from).seconds();
    (f.communicates ? communication : computation).emplace_back(from, s.ended);
    out.work.add(seconds);
    out.classes[f.cls].add(seconds);
    if (f.communicates) out.collectives[f.key].add(seconds);
    else out.phases[TraceRules::task_phase(timeline.phases[static_cast<std::size_t>(s.phase)], f.cls)].add(seconds);
  }
  set_times(out, busy_time(std::move(computation), std::move(communication), {Duration(), timeline.step_time}));
  return out;
}

}  // namespace tandem
