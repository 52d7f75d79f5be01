#include "sim/engine.hpp"

#include <algorithm>

namespace tandem::sim {

Engine::Engine(const Quotient& quotient, const std::vector<LaneTemplate>& templates, Patterns& patterns, Host host)
    : quotient_(quotient),
      templates_(templates),
      patterns_(patterns),
      host_(host),
      network_(quotient.links, quotient.uses, 2 * quotient.exchanges.size(), queue_),
      pending_(quotient.exchanges.size()) {}

void Engine::add(Part part) {
  RoleState role{&part.itinerary, part.slots.data(), std::move(part.meeting_in_template), part.delays, std::move(part.stretches),
                 {}, {}, false};
  role.stretches.resize(templates_.size(), -1);
  role.record.passages.resize(part.itinerary.tmpl.size());
  if (part.itinerary.host_waits) role.record.late.reserve(kPatternLanes * part.itinerary.tmpl.size());
  count_meetings(role);
  for (std::size_t lane = 0; lane < kLanes; ++lane) next_instance(role, lane, role.cursors[lane]);
  roles_.push_back(std::move(role));
}

/// Where the meetings of each instance begin in the record.
void Engine::count_meetings(RoleState& role) const {
  std::vector<std::uint32_t> in_template(templates_.size(), 0);
  for (std::size_t t = 0; t < templates_.size(); ++t)
    for (const auto& lane : templates_[t].lanes)
      for (const LaneTask& task : lane) in_template[t] += !task.launch_only && role.slots[task.slot].exchange >= 0;
  std::uint32_t total = 0;
  role.record.first_meeting.reserve(role.itinerary->tmpl.size());
  for (const std::uint32_t t : role.itinerary->tmpl) {
    role.record.first_meeting.push_back(total);
    total += in_template[t];
  }
  role.record.meetings.resize(total);
}

void Engine::run() {
  for (std::uint32_t r = static_cast<std::uint32_t>(roles_.size()); r-- > 0;) wake(r);
  drain();
  while (network_.pending()) {
    handle(queue_.pop());
    drain();
  }
  for (RoleState& role : roles_)
    for (const Cursor& c : role.cursors) role.record.end = std::max(role.record.end, Duration::picoseconds(c.free));
}

void Engine::wake(std::uint32_t role) {
  if (roles_[role].listed) return;
  roles_[role].listed = true;
  awake_.push_back(role);
}

void Engine::drain() {
  while (!awake_.empty()) {
    const std::uint32_t role = awake_.back();
    awake_.pop_back();
    roles_[role].listed = false;
    advance(role);
  }
}

void Engine::advance(std::uint32_t role) {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t lane = 0; lane < kLanes; ++lane) moved |= move(role, lane);
  }
}

bool Engine::move(std::uint32_t role, std::size_t lane) {
  const Cursor& c = roles_[role].cursors[lane];
  if (c.task == nullptr || c.meeting) return false;
  if (c.waits_for != kNothing && roles_[role].record.ended_of(patterns_, c.waits_for, c.waits_for_task) < 0) return false;
  if (!host_.synchronous) return walk<Kind::stream>(role, lane);
  return lane == 0 ? walk<Kind::host>(role, lane) : walk<Kind::worker>(role, lane);
}

bool Engine::next_instance(const RoleState& role, std::size_t lane, Cursor& c) const {
  const auto& instances = role.itinerary->lanes[lane].instances;
  if (c.item == instances.size()) {
    c.task = nullptr;
    return false;
  }
  const std::uint32_t i = instances[c.item++];
  const LaneTemplate& t = templates_[role.itinerary->tmpl[i]];
  c.instance = i;
  c.entered = false;
  c.base = role.itinerary->base[i];
  c.task = t.lanes[lane].data();
  c.end = c.task + t.lanes[lane].size();
  c.deps = t.deps.data();
  return true;
}

/// When the next task of a lane could start as far as its own role is concerned; false when that is not known yet.
template <Engine::Kind kind>
bool Engine::ready_time(RoleState& role, std::size_t lane, Cursor& c, std::int64_t& ready) const {
  const LaneTask& task = *c.task;
  const std::uint32_t position = c.base + task.task, place = c.first + task.task;
  if constexpr (kind == Kind::stream) {
    ready = c.free;
  } else if constexpr (kind == Kind::host) {
    ready = role.record.issued[place] = c.free + host_.launch.ps();
  } else {
    if (role.record.issued[place] < 0) return false;
    ready = std::max(c.free, role.record.issued[place]);
  }
  c.waits_for = kNothing;
  const auto after = [&](std::uint32_t instance, std::uint16_t t, std::int64_t end) {
    if (end < 0) c.waits_for = instance, c.waits_for_task = t;
    ready = std::max(ready, end);
    return end;
  };
  for (std::uint32_t d = task.first_dep; d < task.first_dep + task.deps; ++d)
    after(c.instance, c.deps[d], role.record.ended[c.first + c.deps[d]]);
  const LaneEdge* edge = role.itinerary->lanes[lane].edges.data() + c.edge;
  for (; edge->to == position; ++edge) {
    const std::int64_t end =
        after(edge->from_instance, edge->from_task, role.record.ended_of(patterns_, edge->from_instance, edge->from_task));
    if (kind == Kind::stream && edge->host_waits)
      c.host_late = std::max(c.host_late, end - static_cast<std::int64_t>(position) * host_.launch.ps());
  }
  if (c.waits_for != kNothing) return false;
  if constexpr (kind == Kind::stream) {
    const std::int64_t issued = c.host_late + (static_cast<std::int64_t>(position) + 1) * host_.launch.ps();
    if (role.itinerary->host_waits) role.record.issued[place] = issued;
    ready = std::max(ready, issued);
  }
  c.edge = static_cast<std::uint32_t>(edge - role.itinerary->lanes[lane].edges.data());
  return true;
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
    const std::uint32_t place = c.first + c.task->task;
    if (kind == Kind::host && c.task->launch_only) {
      role.record.issued[place] = c.free += host_.launch.ps();
      ++c.task;
      moved = true;
      continue;
    }
    std::int64_t ready = 0;
    if (!ready_time<kind>(role, lane, c, ready)) break;
    moved = true;
    const Slot slot = role.slots[c.task->slot];
    if (slot.exchange < 0) {
      role.record.ended[place] = c.free =
          ready + slot.duration + (role.delays != nullptr ? role.delays->of(c.instance, c.task->task) : 0);
      ++c.task;
      continue;
    }
    c.meeting = true;
    const std::uint32_t meeting = role.record.first_meeting[c.instance] + role.meeting_in_template[c.task->slot];
    arrive({r, static_cast<std::uint32_t>(lane), place, meeting}, ready, static_cast<std::uint32_t>(slot.exchange));
    if (c.meeting) break;
  }
  return moved;
}

/// Walks the tensor lane up to the instance that the compute lane has reached; false when it is held up before that.
bool Engine::bring_tensor_lane(std::uint32_t r, const Cursor& c) {
  const Cursor& tensor = roles_[r].cursors[1];
  const auto there = [&] { return tensor.task != nullptr && tensor.task != tensor.end && tensor.instance == c.instance; };
  if (!there()) move(r, 1);
  return there();
}

void Engine::arrive(const Seat& seat, std::int64_t ready, std::uint32_t exchange) {
  roles_[seat.role].record.meetings[seat.meeting].ready = ready;
  Pending& p = pending_[exchange];
  p.first = p.seats.empty() ? ready : std::min(p.first, ready);
  p.last = p.seats.empty() ? ready : std::max(p.last, ready);
  p.seats.push_back(seat);
  if (p.seats.size() == quotient_.exchanges[exchange].parties) begin(exchange);
}

void Engine::begin(std::uint32_t exchange) {
  const Exchange& e = quotient_.exchanges[exchange];
  const Duration started = Duration::picoseconds(pending_[exchange].last);
  if (!e.contends) return finish(exchange, started + e.alone);
  // An instance that went in one step had waited for causes of its late tasks. Where one of its early tasks leads here, the network
  // has moved on meanwhile: nobody leaves, and `perform` in sim/play starts anew without patterns.
  if (stepped_ && started < queue_.now()) return;
  queue_.schedule(started, static_cast<std::uint32_t>(2 * pending_.size()) + exchange, 0);
}

void Engine::start_chains(std::uint32_t exchange) {
  for (std::uint32_t chain = 0; chain < 2; ++chain) {
    const auto& segments = quotient_.exchanges[exchange].chains[chain];
    if (segments.empty()) continue;
    ++pending_[exchange].running;
    network_.start(2 * exchange + chain, segments);
  }
}

void Engine::finish(std::uint32_t exchange, Duration end) {
  Pending& p = pending_[exchange];
  for (const Seat& seat : p.seats) {
    RoleState& role = roles_[seat.role];
    Meeting& m = role.record.meetings[seat.meeting];
    m.started = p.last;
    m.first = p.first;
    Cursor& c = role.cursors[seat.lane];
    role.record.ended[seat.place] = c.free = end.ps();
    c.meeting = false;
    ++c.task;
    wake(seat.role);
  }
  p.seats.clear();
}

void Engine::handle(const Event& event) {
  const auto transfers = static_cast<std::uint32_t>(2 * pending_.size());
  if (event.target >= transfers) return start_chains(event.target - transfers);
  if (!network_.take(event)) return;
  const std::uint32_t exchange = event.target / 2;
  if (--pending_[exchange].running == 0) finish(exchange, queue_.now() + quotient_.exchanges[exchange].tail);
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
