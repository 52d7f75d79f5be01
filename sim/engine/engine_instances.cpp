// Decides how each instance is simulated (by a pattern, in runs, or task by task), and applies patterns.

#include <algorithm>

#include "sim/engine/engine.hpp"

namespace tandem::sim {

/// A lane is at the first task of an instance. The compute lane decides how the instance is simulated, and other lanes wait until
/// then. That delays nobody: their tasks depend on a computation of the same instance.
Engine::Entry Engine::enter(std::uint32_t r, std::size_t lane, Cursor& c) {
  RoleState& role = roles_[r];
  InstanceRecord& p = instance_record(role, c.instance);
  if (p.singly() || p.in_runs()) return begin_tasks(role, c, p);
  const TimedTemplateId timed = role.run_table->timed_templates[role.lane_program->starts[c.instance].tmpl];
  if (timed < 0 || p.pattern == InstanceRecord::kDelayed || role.jitter != nullptr) return begin_tasks(role, c, p);
  return lane == 0 ? pass(r, timed, c, p) : Entry::waits;
}

/// Takes `count` entries of Times::ended, whose times are not known yet. Returns the index of the first.
inline std::uint32_t Engine::new_times(std::uint32_t count) {
  const std::size_t first = taken_times_;
  taken_times_ += count;
  if (taken_times_ > times_.ended.size()) add_times();
  return static_cast<std::uint32_t>(first);
}

/// Adds at least kTimesAtOnce entries: adding them one instance at a time would cost more than filling them.
void Engine::add_times() {
  const std::size_t size = std::max(taken_times_, times_.ended.size() + kTimesAtOnce);
  require(taken_times_ <= UINT32_MAX, "a step has more times than can be kept");
  times_.ended.resize(size, -1);
  if (host_.synchronous) times_.issued.resize(size, -1);
}

inline Engine::Entry Engine::begin_tasks(RoleState& role, Cursor& c, InstanceRecord& p) {
  if (!p.singly() && !p.in_runs()) {
    const bool alike = p.pattern != InstanceRecord::kDelayed && role.jitter == nullptr;
    const bool runs = alike && role.run_table->runs && role.parted < kMostParted;
    const std::uint32_t tmpl = role.lane_program->starts[c.instance].tmpl;
    p.pattern = runs ? InstanceRecord::kInRuns : InstanceRecord::kSingly;
    p.first = new_times((runs ? role.run_table->in_runs : role.run_table->singly)[tmpl]);
  }
  c.first = p.first;
  c.singly = p.singly();
  c.entered = true;
  return Entry::begun;
}

/// Switches an instance from runs to single tasks, and copies its known times.
void Engine::part(RoleState& role, std::uint32_t instance) {
  InstanceRecord& p = instance_record(role, instance);
  const std::uint32_t tmpl = role.lane_program->starts[instance].tmpl, before = p.first;
  p.pattern = InstanceRecord::kSingly;
  p.first = new_times(role.run_table->singly[tmpl]);
  auto& times = times_.ended;
  for (const std::vector<LaneTask>& lane : templates_[tmpl].lanes)
    for (const LaneTask& task : lane) {
      const RunTask& step = role.steps[task.slot];
      const std::int64_t end = times[before + step.in_runs];
      if (end < 0) continue;
      times[p.first + step.singly] = end + step.after;
      if (step.exchange >= 0) std::copy_n(&times[before + step.in_runs + 1], kExchangeTimes - 1, &times[p.first + step.singly + 1]);
    }
  for (Cursor& c : role.cursors)
    if (c.entered && c.instance == instance) c.first = p.first, c.singly = true;
  ++role.parted;
}

/// Adds to `arrival_` what a lane's tasks of this instance wait for in other instances.
inline Engine::Entry Engine::meet_edges(RoleState& role, const TimedTemplate& s, std::size_t lane) {
  const Cursor& c = role.cursors[lane];
  const std::uint32_t next = role.lane_program->starts[c.instance + 1].base;
  arrival_.late[lane] = c.host_late;
  const LaneEdge* edge = c.edge;
  for (; edge->to < next; ++edge) {
    const auto task = static_cast<std::uint16_t>(edge->to - c.base);
    const bool first = task == s.first[lane], starts = lane == 0 && first;
    if (edge->host_waits && !first) return Entry::begun;
    if (role.gates.passed[edge->from_lane] <= edge->from) {
      role.gates.wait(0, edge->from_lane, edge->from);
      return Entry::waits;
    }
    const RunTask& step = role.steps[edge->from_slot];
    const std::int64_t end = role.record.ended_of(times_, patterns_, step, edge->from_instance, edge->from_task);
    if (edge->host_waits)
      arrival_.late[lane] =
          std::max(arrival_.late[lane],
                   end - static_cast<std::int64_t>(c.host + s.tasks[task].issued - s.tasks[task].host) * host_.launch.ps());
    if (starts) arrival_.ready = std::max(arrival_.ready, end);
    else arrival_.after.emplace_back(task, end);
  }
  arrival_.edge[lane] = edge;
  return Entry::passed;
}

/// Returns `arrival_` in ps after `start`, without waits that end before.
inline const InstanceWaits& Engine::instance_waits(const TimedTemplate& s, const Cursor& c, const Cursor& tensor,
                                                  std::int64_t start) {
  const std::size_t lanes = s.on_tensor ? 2 : 1;
  for (std::size_t lane = 0; lane < kPatternLanes; ++lane) {
    const std::int64_t issue = arrival_.late[lane] + static_cast<std::int64_t>(c.host) * host_.launch.ps() - start;
    waits_.issue[lane] = lane >= lanes || issue <= s.slack[lane] ? InstanceWaits::kIdle : issue;
  }
  waits_.tensor_free = s.on_tensor ? std::max<std::int64_t>(0, tensor.free - start) : 0;
  waits_.after.clear();
  for (const auto& [task, end] : arrival_.after)
    if (end > start) waits_.after.emplace_back(task, end - start);
  return waits_;
}

/// Walks the tensor lane up to the instance that the compute lane has reached; false when it is held up before that.
inline bool Engine::bring_tensor_lane(std::uint32_t r, const Cursor& c) {
  RoleState& role = roles_[r];
  Cursor& tensor = role.cursors[1];
  const auto there = [&] { return tensor.task != nullptr && tensor.task != tensor.end && tensor.instance == c.instance; };
  if (there()) return true;
  if (!role.gates.is_open(1)) return false;
  const std::vector<std::uint32_t>& instances = role.lane_program->lanes[1].instances;
  const bool next = tensor.task == tensor.end && tensor.item < instances.size() && instances[tensor.item] == c.instance;
  if (next) return next_instance(role, 1, tensor);  // the usual case: no walk is needed
  go(r, 1);
  return there();
}

/// Simulates the whole instance by a pattern once all that its tasks wait for is known. If that depends on its own early tasks, all
/// wait for each other, and `perform` in sim/engine/simulate_step retries without patterns.
inline Engine::Entry Engine::pass(std::uint32_t r, TimedTemplateId timed, Cursor& c, InstanceRecord& p) {
  RoleState& role = roles_[r];
  const TimedTemplate& s = patterns_.of(timed);
  Cursor& tensor = role.cursors[1];
  arrival_.ready = c.free;
  arrival_.late.fill(0);
  arrival_.after.clear();
  Entry met = meet_edges(role, s, 0);
  if (met == Entry::passed && s.on_tensor) met = bring_tensor_lane(r, c) ? meet_edges(role, s, 1) : Entry::waits;
  if (met == Entry::waits) return met;
  if (met == Entry::begun) return begin_tasks(role, c, p);
  const std::int64_t start = std::max(arrival_.ready, arrival_.late[0] + issue(c));
  const PatternId id = patterns_.find(timed, instance_waits(s, c, tensor, start));
  if (id == Patterns::kNone) return begin_tasks(role, c, p);

  stepped_ = true;
  p = {start, id, 0};
  const auto leave = [&](Cursor& lane, std::size_t l) {
    lane.free = start + patterns_[id].free[l];
    if (lane.host_late != arrival_.late[l]) role.record.set_late(l, {c.base, lane.host_late = arrival_.late[l]});
    lane.edge = arrival_.edge[l];
    lane.task = lane.end;
    role.gates.pass(l, role.lane_program->starts[c.instance + 1].base);
  };
  leave(c, 0);
  if (s.on_tensor) leave(tensor, 1);
  return Entry::passed;
}

}  // namespace tandem::sim
