#pragma once
// One scene played: roles found, programs walked, everything that happened kept for whoever wants to read it.

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/network/scene.hpp"

namespace tandem::sim {

/// A class of alike ranks.
struct Role {
  StageId stage;
  std::vector<std::int32_t> ranks;  ///< ascending; the first is the representative
};

struct Play {
  std::vector<Role> roles;             ///< ascending first rank
  std::vector<Record> records;         ///< by role
  Times times;                         ///< of all roles
  std::vector<Itinerary> itineraries;  ///< by stage
  Catalogue catalogue;
  Quotient quotient;
  Patterns patterns;
  std::vector<Course> courses;         ///< by table of the quotient
  std::vector<RoleDelays> delays;  ///< by role: see sim/engine/company; empty where nothing overlaps
  Host host;
  Duration step_time;
  std::int64_t tasks = 0, events = 0;

  const Itinerary& itinerary(std::size_t role) const { return itineraries[roles[role].stage.index()]; }
  const Course& course(std::size_t role) const { return courses[quotient.roles[role].table]; }
};

/// Throws ContractError naming the tasks that wait for each other when the graph cannot finish.
Play play(const Scene& scene, const Manner& manner = {});

/// One task as it happened to a role.
struct Happening {
  std::int64_t ready, started, ended;  ///< ps
  std::optional<std::int64_t> first;           ///< earliest party's arrival, where parties met
};

/// Reads a role's record task by task. Breakdowns ask millions of times, so that what they ask for stands here.
class Reader {
 public:
  Reader(const Play& play, std::size_t role);
  Happening at(std::uint32_t instance, std::uint16_t task) const {
    const std::uint32_t slot = slot_of(instance, task);
    const std::int64_t ended = this->ended(instance, task);
    if (slots_[slot].exchange < 0) {
      const std::int64_t started = alone_from(ended, instance, task, slot);
      return {started, started, ended, {}};
    }
    const std::int64_t* const times = record_.exchange(times_, course_.steps[slot], instance);
    return {times[1], times[2], ended, times[3]};
  }
  /// When the bytes or the computation began; less work than all of `at`.
  std::int64_t started(std::uint32_t instance, std::uint16_t task) const {
    const std::uint32_t slot = slot_of(instance, task);
    if (slots_[slot].exchange < 0) return alone_from(ended(instance, task), instance, task, slot);
    return record_.exchange(times_, course_.steps[slot], instance)[2];
  }
  /// When a task that exchanges nothing started and ended, read once.
  std::pair<std::int64_t, std::int64_t> computed(std::uint32_t instance, std::uint16_t task) const {
    const std::int64_t end = ended(instance, task);
    return {alone_from(end, instance, task, slot_of(instance, task)), end};
  }
  std::int64_t issued(std::uint32_t instance, std::uint16_t task) const;
  std::int64_t ended(std::uint32_t instance, std::uint16_t task) const {
    return record_.ended_of(times_, patterns_, step(instance, task), instance, task);
  }

 private:
  std::uint32_t slot_of(std::uint32_t instance, std::uint16_t task) const {
    return first_slot_[itinerary_.stops[instance].tmpl] + task;
  }
  const Step& step(std::uint32_t instance, std::uint16_t task) const { return course_.steps[slot_of(instance, task)]; }
  /// Start of a task that nobody else takes part in.
  std::int64_t alone_from(std::int64_t ended, std::uint32_t instance, std::uint16_t task, std::uint32_t slot) const {
    return ended - slots_[slot].duration - (delays_ != nullptr ? delays_->of(instance, task) : 0);
  }

  const Record& record_;
  const Times& times_;
  const Patterns& patterns_;
  const Itinerary& itinerary_;
  const std::vector<Slot>& slots_;
  const Course& course_;
  const std::vector<std::uint32_t>& first_slot_;
  const RoleDelays* delays_;
  Host host_;
  bool issues_itself_;  ///< its tasks are not issued one launch after the other
};

}  // namespace tandem::sim
