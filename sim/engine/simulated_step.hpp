#pragma once
// One simulated step: its roles and the times of all their tasks.

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/engine.hpp"

namespace tandem::sim {

/// A class of alike ranks.
struct Role {
  StageId stage;
  std::vector<std::int32_t> ranks;  ///< ascending; the first is the representative
};

struct SimulatedStep {
  std::vector<Role> roles;             ///< ascending first rank
  std::vector<Record> records;         ///< by role
  Times times;                         ///< times of all roles
  std::vector<LaneProgram> lane_programs;  ///< by stage
  Communications communications;
  Quotient quotient;
  SlowChoices slow_choices;          ///< NCCL's choices that another algorithm would beat
  Patterns patterns;
  std::vector<RunTable> run_tables;  ///< by table of the quotient
  std::vector<RoleDelays> delays;    ///< by role: see sim/engine/overlap; empty if nothing overlaps
  std::optional<JitterDelays> jitter;
  Host host;
  Duration step_time;
  std::int64_t tasks = 0, events = 0;

  const LaneProgram& lane_program(std::size_t role) const { return lane_programs[roles[role].stage.index()]; }
  const RunTable& run_table(std::size_t role) const { return run_tables[quotient.roles[role].table]; }
};

/// One task as it happened to a role.
struct TaskSpan {
  std::int64_t ready, started, ended;  ///< ps
  std::optional<std::int64_t> first;           ///< arrival of the first party; nothing if it is no exchange
};

/// Reads a role's record task by task. The functions that breakdowns call millions of times are inline.
class Reader {
 public:
  Reader(const SimulatedStep& simulated, std::size_t role);
  TaskSpan at(std::uint32_t instance, std::uint16_t task) const {
    const std::uint32_t slot = slot_of(instance, task);
    const std::int64_t ended = this->ended(instance, task);
    if (slots_[slot].exchange < 0) {
      const std::int64_t started = alone_from(ended, instance, task, slot);
      return {started, started, ended, {}};
    }
    const std::int64_t* const times = record_.exchange(times_, run_table_.steps[slot], instance);
    return {times[1], times[2], ended, times[3]};
  }
  /// When the bytes or the computation began; less work than all of `at`.
  std::int64_t started(std::uint32_t instance, std::uint16_t task) const {
    const std::uint32_t slot = slot_of(instance, task);
    if (slots_[slot].exchange < 0) return alone_from(ended(instance, task), instance, task, slot);
    return record_.exchange(times_, run_table_.steps[slot], instance)[2];
  }
  /// When a task that exchanges nothing started and ended, read once.
  std::pair<std::int64_t, std::int64_t> computed(std::uint32_t instance, std::uint16_t task) const {
    const std::int64_t end = ended(instance, task);
    return {alone_from(end, instance, task, slot_of(instance, task)), end};
  }
  /// Picoseconds from its start to its end.
  std::int64_t lasted(std::uint32_t instance, std::uint16_t task) const {
    const std::uint32_t slot = slot_of(instance, task);
    if (slots_[slot].exchange < 0) return alone_for(instance, task, slot);
    return ended(instance, task) - started(instance, task);
  }
  std::int64_t issued(std::uint32_t instance, std::uint16_t task) const;
  std::int64_t ended(std::uint32_t instance, std::uint16_t task) const {
    return record_.ended_of(times_, patterns_, step(instance, task), instance, task);
  }

 private:
  std::uint32_t slot_of(std::uint32_t instance, std::uint16_t task) const {
    return first_slot_[lane_program_.starts[instance].tmpl] + task;
  }
  const RunTask& step(std::uint32_t instance, std::uint16_t task) const { return run_table_.steps[slot_of(instance, task)]; }
  /// Start of a task that is no exchange, from its end.
  std::int64_t alone_from(std::int64_t ended, std::uint32_t instance, std::uint16_t task, std::uint32_t slot) const {
    return ended - alone_for(instance, task, slot);
  }
  /// Picoseconds that such a task takes, with overlap delays and jitter.
  std::int64_t alone_for(std::uint32_t instance, std::uint16_t task, std::uint32_t slot) const {
    const std::int64_t duration = slots_[slot].duration;
    const std::int64_t delay = delays_ != nullptr ? delays_->of(instance, task) : 0;
    if (jitter_ == nullptr) return duration + delay;
    return duration + delay + jitter_->of(rank_, lane_program_.starts[instance].base + task, slot, duration);
  }

  const Record& record_;
  const Times& times_;
  const Patterns& patterns_;
  const LaneProgram& lane_program_;
  const std::vector<Slot>& slots_;
  const RunTable& run_table_;
  const std::vector<std::uint32_t>& first_slot_;
  const RoleDelays* delays_;
  const JitterDelays* jitter_;
  std::int32_t rank_;
  Host host_;
};

}  // namespace tandem::sim
