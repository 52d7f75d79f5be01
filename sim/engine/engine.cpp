#include "sim/engine/engine.hpp"

#include <algorithm>
#include <map>

namespace tandem::sim {
namespace {

/// Exchanges whose parties are told together: few enough that the memory they touch stays in the innermost cache.
constexpr std::uint32_t kTogether = 32;

/// How many instances ahead of a role's cursor memory is prefetched. Roles take turns, so it arrives in the meantime.
constexpr std::size_t kAhead = 16;

/// Prefetches the item `n` places after `first`. It may lie past the end: the address is computed as a number, and nothing is read.
template <class T>
void fetch(const T* first, std::size_t n) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(first) + n * sizeof(T)));
}

}  // namespace

Engine::Engine(const Quotient& quotient, const std::vector<LaneTemplate>& templates, Patterns& patterns, Host host, Times memory)
    : templates_(templates),
      patterns_(patterns),
      host_(host),
      network_(quotient.links, quotient.uses, 2 * quotient.exchanges.size(), queue_),
      times_(std::move(memory)) {
  times_.instances.clear();
  times_.ended.clear();
  times_.issued.clear();
  std::uint32_t participants = 0;
  for (const Exchange& e : quotient.exchanges) {
    Pending p;
    p.tail = e.tail;
    p.alone = e.alone;
    p.contends = e.contends;
    p.parties = e.parties;
    p.participants = participants;
    participants += e.parties;
    p.segments = static_cast<std::uint32_t>(segments_.size());
    for (std::size_t c = 0; c < e.chains.size(); ++c) {
      p.count[c] = static_cast<std::uint32_t>(e.chains[c].size());
      segments_.insert(segments_.end(), e.chains[c].begin(), e.chains[c].end());
    }
    pending_.push_back(p);
  }
  participants_.resize(participants);
  roles_.reserve(quotient.roles.size());
  std::size_t exchanges = 0;
  for (const RoleSlots& role : quotient.roles) exchanges += role.exchanges.size();
  exchanges_.reserve(exchanges);
}

void Engine::add(Part part) {
  const std::uint32_t* const exchanges = exchanges_.data() + exchanges_.size();
  const LaneProgram& lane_program = part.lane_program;
  RoleState role{{}, {}, &lane_program, part.run_table.steps.data(), exchanges, &part.run_table, part.jitter, part.rank, 0, {},
                 part.delays};
  exchanges_.insert(exchanges_.end(), part.exchanges.begin(), part.exchanges.end());
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    role.cursors[lane].edge = lane_program.lanes[lane].edges.data();
    next_instance(role, lane, role.cursors[lane]);
  }
  roles_.push_back(std::move(role));
}

/// Reserves memory for the times of all roles.
void Engine::place_records() {
  struct RolesOfProgram {
    std::size_t first = 0, roles = 0;
  };
  std::map<const LaneProgram*, RolesOfProgram> of;
  std::size_t instances = 0;
  for (RoleState& role : roles_) role.record.first_instance = of[role.lane_program].roles++;
  for (auto& [lane_program, p] : of) {
    p.first = instances;
    instances += p.roles * lane_program->instances();
  }
  for (RoleState& role : roles_) {
    role.record.first_instance += of[role.lane_program].first;
    role.record.roles = of[role.lane_program].roles;
  }
  times_.instances.resize(instances);
  std::size_t times = room_for_times() + kTimesAtOnce;
  for (const RoleState& role : roles_)
    if (role.delays != nullptr) times += mark_delayed(role);
  times_.ended.reserve(times);
  if (host_.synchronous) times_.issued.reserve(times);
}

/// Marks instances with delayed computations. Returns the number of times that they need: they are simulated task by task.
std::size_t Engine::mark_delayed(const RoleState& role) {
  const std::vector<std::uint32_t>& first = role.delays->first;
  std::size_t times = 0;
  for (std::uint32_t i = 0; i < first.size(); ++i) {
    if (first[i] == RoleDelays::kNone) continue;
    instance_record(role, i).pattern = InstanceRecord::kDelayed;
    times += role.run_table->singly[role.lane_program->starts[i].tmpl];
  }
  return times;
}

/// Upper bound on the number of times. Reserved memory that nobody writes costs nothing; moving all times would.
std::size_t Engine::room_for_times() const {
  std::map<std::pair<const LaneProgram*, const RunTable*>, std::size_t> known;
  std::size_t sum = 0;
  for (const RoleState& role : roles_) {
    const auto [at, fresh] = known.try_emplace({role.lane_program, role.run_table}, 0);
    if (fresh && role.jitter != nullptr) at->second = role.run_table->times_singly(*role.lane_program);
    else if (fresh) at->second = role.run_table->times(*role.lane_program, kMostParted);
    sum += at->second;
  }
  return sum;
}

void Engine::run() {
  place_records();
  for (std::uint32_t r = static_cast<std::uint32_t>(roles_.size()); r-- > 0;) wake(r);
  drain();
  while (network_.pending()) {
    handle(queue_.pop());
    expect(queue_.coming());
    if (finished_.size() == kTogether || queue_.empty() || queue_.next() > queue_.now()) set_free();
  }
  for (RoleState& role : roles_)
    for (const Cursor& c : role.cursors) role.record.end = std::max(role.record.end, Duration::picoseconds(c.free));
}

void Engine::drain() {
  while (!awake_.empty()) {
    const std::uint32_t role = awake_.back();
    awake_.pop_back();
    roles_[role].gates.listed = false;
    advance(role);
  }
}

inline void Engine::advance(std::uint32_t role) {
  const Gates& gates = roles_[role].gates;
  for (bool moved = true; moved;) {
    moved = false;
    unsigned ahead = kAllLanes;  // lanes that have not had their turn
    while (const unsigned open = ahead & gates.open) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(open));
      ahead = ~1U << lane;
      moved |= host_.synchronous ? go(role, lane) : walk<Kind::stream>(role, lane);
    }
  }
}

/// Walks a lane that is open.
bool Engine::go(std::uint32_t role, std::size_t lane) {
  if (!host_.synchronous) return walk<Kind::stream>(role, lane);
  return lane == 0 ? walk<Kind::host>(role, lane) : walk<Kind::worker>(role, lane);
}

bool Engine::next_instance(RoleState& role, std::size_t lane, Cursor& c) const {
  const auto& instances = role.lane_program->lanes[lane].instances;
  if (c.item == instances.size()) {
    c.task = nullptr;
    role.gates.pass(lane, UINT32_MAX);
    role.gates.shut_lane(lane);
    return false;
  }
  const std::uint32_t i = instances[c.item++];
  const InstanceStart& start = role.lane_program->starts[i];
  fetch(instances.data(), c.item + kAhead);
  if (lane == 0 && !times_.instances.empty()) {  // before the run there are none
    fetch(&start, kAhead);
    fetch(times_.instances.data(), role.record.first_instance + (i + kAhead) * role.record.roles);
  }
  const LaneTemplate& t = templates_[start.tmpl];
  c.instance = i;
  c.entered = false;
  c.base = start.base;
  c.host = start.host;
  c.task = t.lanes[lane].data();
  c.end = c.task + t.lanes[lane].size();
  return true;
}

/// Sets `ready` to the earliest start of the lane's next task that its own role allows. Returns false if that is not known yet.
template <Engine::Kind kind>
inline bool Engine::ready_time(RoleState& role, std::size_t lane, Cursor& c, std::int64_t& ready) {
  const LaneTask& task = *c.task;
  const std::uint32_t position = c.base + task.task;
  const auto issued_at = [&]() -> std::int64_t& { return times_.issued[place(c, role.steps[task.slot])]; };
  if constexpr (kind == Kind::stream) {
    ready = c.free;
  } else if constexpr (kind == Kind::host) {
    ready = issued_at() = c.free + task.host * host_.launch.ps();
  } else {
    if (issued_at() < 0) return false;
    ready = std::max(c.free, issued_at());
  }
  for (const LaneDep& dep : task.deps) {
    if (role.gates.passed[dep.lane] <= c.base + dep.task) return role.gates.wait(lane, dep.lane, c.base + dep.task), false;
    const RunTask& step = role.steps[dep.slot];
    ready = std::max(ready, times_.ended[this->place(c, step)] + (c.singly ? 0 : step.after));
  }
  const LaneEdge* edge = c.edge;
  for (; edge->to == position; ++edge) {
    if (role.gates.passed[edge->from_lane] <= edge->from) return role.gates.wait(lane, edge->from_lane, edge->from), false;
    const RunTask& step = role.steps[edge->from_slot];
    const std::int64_t end = role.record.ended_of(times_, patterns_, step, edge->from_instance, edge->from_task);
    ready = std::max(ready, end);
    if (kind == Kind::stream && edge->host_waits) {
      c.host_late = std::max(c.host_late, end - issue(c) + task.host * host_.launch.ps());
      role.record.set_late(lane, {position, c.host_late});
    }
  }
  if constexpr (kind == Kind::stream) ready = std::max(ready, c.host_late + issue(c));
  c.edge = edge;
  return true;
}

/// Simulates a run's tasks one by one. The first is ready at `ready`, and none waits for another lane or instance.
inline void Engine::walk_run(RoleState& role, std::size_t lane, Cursor& c, std::int64_t ready) {
  const RunTask* const steps = role.steps;
  const RunTask& head = steps[c.task->slot];
  const LaneTask* const end = c.task + head.tasks;
  std::int64_t* const ended = times_.ended.data() + c.first;
  const std::int64_t launch = host_.launch.ps(), late = c.host_late + static_cast<std::int64_t>(c.host) * launch;
  for (const LaneTask* task = c.task; task != end; ++task) {
    const RunTask& step = steps[task->slot];
    ready = std::max(ready, late + task->issued * launch);
    ready += step.duration + delay(role, c, *task, step.duration);
    ended[step.singly] = ready;
  }
  c.free = ready;
  c.task = end;
  role.gates.pass(lane, c.base + head.last + 1U);
}

template <Engine::Kind kind>
bool Engine::walk(std::uint32_t r, std::size_t lane) {
  RoleState& role = roles_[r];
  Cursor& c = role.cursors[lane];
  bool moved = false;
  while (c.task != nullptr) {
    if (c.task == c.end && !next_instance(role, lane, c)) break;
    if (!c.entered) {
      const Entry entry = enter(r, lane, c);
      if (entry == Entry::waits) break;
      moved = true;
      if (entry == Entry::passed) continue;
    }
    if (kind == Kind::host && c.task->launch_only) {
      times_.issued[place(c, role.steps[c.task->slot])] = c.free += c.task->host * host_.launch.ps();
      ++c.task;
      moved = true;
      continue;
    }
    std::int64_t ready = 0;
    if (!ready_time<kind>(role, lane, c, ready)) break;
    moved = true;
    const RunTask& step = role.steps[c.task->slot];
    if (step.exchange >= 0) {
      role.gates.shut_lane(lane);
      arrive({r, static_cast<std::uint32_t>(lane), ready}, role.exchanges[step.exchange]);
      if (!role.gates.is_open(lane)) break;
      continue;
    }
    if (kind == Kind::stream && c.singly && step.tasks > 1 && c.edge->to > c.base + step.last) {
      walk_run(role, lane, c, ready);
      continue;
    }
    if (!c.singly && step.tasks > 1 && !unbroken(c, step, ready)) part(role, c.instance);
    const std::int64_t end = ready + step.duration;
    if (c.singly) {
      times_.ended[c.first + step.singly] = c.free = end + delay(role, c, *c.task, step.duration);
      role.gates.pass(lane, c.base + c.task->task + 1U);
      ++c.task;
    } else {
      times_.ended[c.first + step.in_runs] = end;
      c.free = end + step.total;
      role.gates.pass(lane, c.base + step.last + 1U);
      c.task += step.tasks;
    }
  }
  return moved;
}

inline void Engine::arrive(Participant participant, std::uint32_t exchange) {
  Pending& p = pending_[exchange];
  p.first = p.arrived == 0 ? participant.ready : std::min(p.first, participant.ready);
  p.last = p.arrived == 0 ? participant.ready : std::max(p.last, participant.ready);
  participants_[p.participants + p.arrived] = participant;
  if (++p.arrived == p.parties) begin(exchange);
}

inline void Engine::begin(std::uint32_t exchange) {
  const Pending& p = pending_[exchange];
  const Duration started = Duration::picoseconds(p.last);
  if (!p.contends) return finish(exchange, started + p.alone);
  // An instance with a pattern is simulated only when all that its late tasks wait for is known. If one of its early tasks leads to
  // this exchange, the network may have passed its start. Then it never begins, and `perform` in sim/engine/simulate_step retries
  // without patterns.
  if (stepped_ && started < queue_.now()) return;
  queue_.schedule(started, static_cast<std::uint32_t>(2 * pending_.size()) + exchange, 0);
}

inline void Engine::start_chains(std::uint32_t exchange) {
  Pending& p = pending_[exchange];
  std::uint32_t first = p.segments;
  for (std::uint32_t chain = 0; chain < 2; ++chain) {
    if (p.count[chain] == 0) continue;
    ++p.running;
    network_.start(2 * exchange + chain, {segments_.data() + first, p.count[chain]});
    first += p.count[chain];
  }
}

inline void Engine::finish(std::uint32_t exchange, Duration end) {
  Pending& p = pending_[exchange];
  for (std::uint32_t s = p.participants; s < p.participants + p.arrived; ++s) {
    const Participant& participant = participants_[s];
    RoleState& role = roles_[participant.role];
    Cursor& c = role.cursors[participant.lane];
    std::int64_t* const times = &times_.ended[place(c, role.steps[c.task->slot])];
    times[0] = c.free = end.ps();
    times[1] = participant.ready;
    times[2] = p.last;
    times[3] = p.first;
    role.gates.pass(participant.lane, c.base + c.task->task + 1U);
    role.gates.open_lane(participant.lane);
    ++c.task;
    wake(participant.role);
  }
  p.arrived = 0;
}

inline void Engine::handle(const Event& event) {
  const auto transfers = static_cast<std::uint32_t>(2 * pending_.size());
  if (event.target >= transfers) return start_chains(event.target - transfers);
  if (!network_.take(event)) return;
  const std::uint32_t exchange = event.target / 2;
  if (--pending_[exchange].running == 0) finished_.push_back({exchange, queue_.now() + pending_[exchange].tail});
}

/// Ends the finished exchanges for their parties, and walks these on. The parties' memory is scattered, so that of several is
/// prefetched at once.
void Engine::set_free() {
  const auto each_participant = [&](auto&& what) {
    for (const Finished& f : finished_)
      for (std::uint32_t s = 0; s < std::min(pending_[f.exchange].arrived, kTogether); ++s)
        what(participants_[pending_[f.exchange].participants + s]);
  };
  for (const Finished& f : finished_) __builtin_prefetch(&participants_[pending_[f.exchange].participants]);
  each_participant([&](const Participant& participant) { expect(participant); });
  each_participant([&](const Participant& participant) { expect_records(participant); });
  for (const Finished& f : finished_) finish(f.exchange, f.end);
  finished_.clear();
  for (const std::uint32_t role : awake_) expect_walk(roles_[role]);
  drain();
}

/// Prefetches the memory that an event will read.
inline void Engine::expect(std::uint32_t target) const {
  if (target == EventQueue::kNone) return;
  const auto transfers = static_cast<std::uint32_t>(2 * pending_.size());
  const std::uint32_t exchange = target < transfers ? target / 2 : target - transfers;
  __builtin_prefetch(&pending_[exchange]);
  network_.expect(target < transfers ? target : 2 * exchange);
}

inline void Engine::expect(const Participant& participant) const {
  const RoleState& role = roles_[participant.role];
  __builtin_prefetch(&role.gates);
  __builtin_prefetch(&role.record);
  __builtin_prefetch(&role.cursors[participant.lane]);
  __builtin_prefetch(&role.cursors[0]);
}

inline void Engine::expect_records(const Participant& participant) const {
  const RoleState& role = roles_[participant.role];
  const Cursor& c = role.cursors[participant.lane];
  __builtin_prefetch(&times_.ended[place(c, role.steps[c.task->slot])]);
}

inline void Engine::expect_walk(const RoleState& role) const {
  const Cursor& c = role.cursors[0];
  __builtin_prefetch(&role.cursors[1]);
  __builtin_prefetch(role.exchanges);
  __builtin_prefetch(&role.record.at(times_, c.instance));
}

std::vector<Engine::Stuck> Engine::stuck() const {
  std::vector<Stuck> all;
  for (std::uint32_t r = 0; r < roles_.size(); ++r)
    for (const Cursor& c : roles_[r].cursors)
      if (c.task != nullptr && c.task != c.end) all.push_back({r, c.base + c.task->task});
  return all;
}

std::vector<Record> Engine::take_records() {
  std::vector<Record> records;
  for (RoleState& role : roles_) records.push_back(std::move(role.record));
  return records;
}

}  // namespace tandem::sim
