#pragma once
// A list scheduler that shares nothing with models/schedule but the words: every stage does its actions in the given
// order, and an action starts when its stage is free and what it needs has ended, a latency ago where that was on
// another stage.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace tandem::tests {

using Orders = std::vector<std::vector<Action>>;  ///< by stage

/// The machine on which orders run. Times are whole ticks.
struct Machine {
  std::int64_t stages = 1, chunks = 1, latency = 0;
  std::function<std::int64_t(std::int64_t stage, const Action&)> time;
  bool folded = false;  ///< two chunks a stage, in a V
  std::int64_t parts() const { return stages * chunks; }
  std::int64_t part(std::int64_t stage, const Action& a) const {
    return folded && a.chunk == 1 ? 2 * stages - 1 - stage : a.chunk * stages + stage;
  }
  std::int64_t stage_of(std::int64_t part) const { return folded && part >= stages ? 2 * stages - 1 - part : part % stages; }
  /// Whether the model's part `part` sends to, and hears from, the part behind it.
  bool sends_on(std::int64_t part) const { return part + 1 < parts() && stages > 1 && stage_of(part) != stage_of(part + 1); }
};

struct Span {
  Action action;
  std::int64_t start = 0, end = 0;
  bool operator==(const Span&) const = default;
};
using Played = std::vector<std::vector<Span>>;  ///< by stage

/// forward, backward, weight: 0, 1, 2.
inline std::size_t kind(Phase p) { return p == Phase::forward ? 0 : p == Phase::backward ? 1 : 2; }

inline bool splits_backwards(ScheduleKind kind) {
  return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_h2 || kind == ScheduleKind::dualpipe_v ||
         kind == ScheduleKind::zb_v || kind == ScheduleKind::v_half || kind == ScheduleKind::v_min;
}

/// When each pass of each micro-batch through each part of the model ended; -1: not yet.
class Ends {
 public:
  explicit Ends(std::int64_t parts) : parts_(parts) {}
  std::int64_t& at(Phase phase, std::int64_t micro_batch, std::int64_t part) {
    const auto i = static_cast<std::size_t>((micro_batch * parts_ + part) * 3) + kind(phase);
    if (i >= ends_.size()) ends_.resize(2 * i + 1, -1);
    return ends_[i];
  }

 private:
  std::int64_t parts_;
  std::vector<std::int64_t> ends_;
};

/// When `a` could start if its stage were free; -1: not known yet.
inline std::int64_t ready(Ends& ends, const Machine& machine, std::int64_t stage, const Action& a) {
  const std::int64_t k = machine.part(stage, a), i = a.micro_batch;
  const auto latency = [&](std::int64_t from) { return machine.sends_on(from) ? machine.latency : 0; };
  const auto after = [&](Phase phase, std::int64_t part, std::int64_t lag) {
    const std::int64_t end = ends.at(phase, i, part);
    return end < 0 ? end : end + lag;
  };
  if (a.phase == Phase::weight) return after(Phase::backward, k, 0);
  if (a.phase == Phase::forward) return k == 0 ? 0 : after(Phase::forward, k - 1, latency(k - 1));
  const std::int64_t own = after(Phase::forward, k, 0);
  const std::int64_t next = k + 1 == machine.parts() ? 0 : after(Phase::backward, k + 1, latency(k));
  return std::min(own, next) < 0 ? -1 : std::max(own, next);
}

/// Nothing when the orders wait for each other.
inline std::optional<Played> list_schedule(const Orders& orders, const Machine& machine) {
  Played played(orders.size());
  Ends ends(machine.parts());
  const auto next = [&](std::size_t s) {
    if (played[s].size() == orders[s].size()) return false;
    const Action& a = orders[s][played[s].size()];
    const auto stage = static_cast<std::int64_t>(s);
    const std::int64_t when = ready(ends, machine, stage, a);
    if (when < 0) return false;
    const std::int64_t start = std::max(when, played[s].empty() ? 0 : played[s].back().end);
    played[s].push_back({a, start, start + machine.time(stage, a)});
    ends.at(a.phase, a.micro_batch, machine.part(stage, a)) = played[s].back().end;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < orders.size(); ++s)
      while (next(s)) moved = true;
  }
  for (std::size_t s = 0; s < orders.size(); ++s)
    if (played[s].size() < orders[s].size()) return std::nullopt;
  return played;
}

inline Orders orders_of(ScheduleKind kind, const ScheduleShape& shape) {
  Orders orders;
  for (int s = 0; s < shape.stages; ++s) orders.push_back(make_schedule(kind, shape, StageId(s)));
  return orders;
}

inline std::int64_t makespan(const Played& played) {
  std::int64_t end = 0;
  for (const auto& stage : played) end = std::max(end, stage.back().end);
  return end;
}

/// The shape of a schedule whose two chunks a stage lie in a V.
inline ScheduleShape folded_shape(std::int64_t stages, std::int64_t micro_batches) {
  ScheduleShape s{stages, micro_batches, 2};
  s.folded = true;
  return s;
}

/// Durations of a whole stage's passes: a chunk takes its share.
struct Ticks {
  std::int64_t forward = 1, backward = 2, weight = 0, latency = 0;
};

inline Machine even_machine(const ScheduleShape& shape, const Ticks& t) {
  Machine m{shape.stages, shape.chunks, t.latency, {}};
  m.time = [t, v = shape.chunks](std::int64_t, const Action& a) {
    const std::int64_t backward = t.backward + (a.whole ? t.weight : 0);
    return (a.phase == Phase::forward ? t.forward : a.phase == Phase::backward ? backward : t.weight) / v;
  };
  m.folded = shape.folded;
  return m;
}

inline Played play(ScheduleKind kind, const ScheduleShape& shape, const Ticks& ticks) {
  auto played = list_schedule(orders_of(kind, shape), even_machine(shape, ticks));
  if (!played) throw ContractError("deadlock");
  return *played;
}

/// Every kind with the shapes it takes: stages and micro-batches from 1 to 8, for interleaved and breadth-first 1 to 4 chunks. DualPipeV
/// has stages up to 4, from twice as many micro-batches on; ZB-V, V-Half
/// and V-Min have stages from 2.
template <class F>
void for_every_shape(F&& f) {
  for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                          ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::breadth_first})
    for (std::int64_t p = 1; p <= 8; ++p)
      for (std::int64_t m = 1; m <= 8; ++m)
        for (std::int64_t v = 1; v <= (has_chunks(kind) ? 4 : 1); ++v) f(kind, ScheduleShape{p, m, v});
  for (std::int64_t p = 1; p <= 4; ++p)
    for (std::int64_t m = 2 * p; m <= 8; ++m) f(ScheduleKind::dualpipe_v, folded_shape(p, m));
  for (const auto kind : {ScheduleKind::zb_v, ScheduleKind::v_half, ScheduleKind::v_min})
    for (std::int64_t p = 2; p <= 8; ++p)
      for (std::int64_t m = 1; m <= 8; ++m) f(kind, folded_shape(p, m));
}

}  // namespace tandem::tests
