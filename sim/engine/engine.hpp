#pragma once
// Simulates all roles together. Each role is walked eagerly, lane by lane, as far as what is known allows: a task whose
// issue, lane and dependencies are known is a few additions, whatever the simulated time, a run of tasks that wait for nobody
// (sim/engine/run_table) is no more than one task, and an instance whose pattern is known (sim/engine/pattern) is one step.
// Only what can contend for
// links or processors goes through the event queue, at its start.
//
// Why this is causal. A walk happens at the beginning or right after an event at time t; it may go on only because that
// event ended an exchange at some time >= t. Whatever it newly reaches starts no earlier than what released it, hence
// at or after t: no event is ever scheduled in the past (EventQueue checks it), and no walk can change what already
// happened. All arrival times are maxima and sums, so the order in which roles are walked does not matter. Instances in one step
// are the exception: their early tasks become known only with the causes of their late ones. An exchange that would then start in
// the past is held, its parties are stuck, and the step is walked again task by task.

#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/jitter.hpp"
#include "sim/engine/lane_program.hpp"
#include "sim/engine/record.hpp"
#include "sim/network/event_queue.hpp"
#include "sim/network/network.hpp"
#include "sim/network/quotient.hpp"

namespace tandem::sim {

/// How the host issues tasks.
struct Host {
  Duration launch;  ///< of one operation; a task has one or more
  bool synchronous = false;
};

/// The program of a role. The references outlive the engine.
struct Part {
  const LaneProgram& lane_program;
  const std::vector<std::uint32_t>& exchanges;  ///< that the steps count
  const RunTable& run_table;
  const RoleDelays* delays = nullptr;   ///< or none
  const JitterDelays* jitter = nullptr;  ///< or none
  std::int32_t rank = 0;                 ///< that jitter draws for
};

class Engine {
 public:
  /// References outlive the engine. `memory`: of an earlier walk, whose times are forgotten.
  Engine(const Quotient& quotient, const std::vector<LaneTemplate>& templates, Patterns& patterns, Host host, Times memory = {});

  void add(Part part);
  /// Runs until no role can go on.
  void run();

  struct Stuck {
    std::uint32_t role, position;
  };
  /// The task each lane still waits to end or to start; empty after a run that reached its end.
  std::vector<Stuck> stuck() const;

  std::vector<Record> take_records();
  Times take_times() { return std::move(times_); }
  std::int64_t events() const { return queue_.popped(); }

 private:
  static constexpr std::uint8_t kAllLanes = (1U << kLanes) - 1;
  /// Instances of a role whose runs are parted before all others are simulated task by task from the start: so often the host is late.
  static constexpr std::uint32_t kMostParted = 64;
  /// Times that are made at once for instances to come.
  static constexpr std::size_t kTimesAtOnce = 1024;

  struct alignas(64) Cursor {
    const LaneTask* task = nullptr;  ///< next one; nullptr: the lane is through
    const LaneTask* end = nullptr;
    const LaneEdge* edge = nullptr;  ///< the next that the lane has not met
    std::int64_t free = 0;
    std::int64_t host_late = 0;  ///< the host has waited for so long before it issued this lane's next task
    std::uint64_t host = 0;   ///< operations of the host before the current instance
    std::uint32_t base = 0;   ///< position of the current instance
    std::uint32_t first = 0;  ///< of its times in `times_`
    std::uint32_t instance = 0;
    std::uint32_t item : 30 = 0;    ///< next entry of LaneOrder::instances
    std::uint32_t entered : 1 = 0;  ///< the instance is simulated, and not by a pattern
    std::uint32_t singly : 1 = 0;   ///< task by task, not in runs
  };
  /// Which lanes of a role can go on: all that a wake-up looks at where they cannot.
  struct Gates {
    std::array<std::uint32_t, kLanes> passed{};     ///< tasks of the lane at positions before this have ended
    std::array<std::uint32_t, kLanes> waits_for{};  ///< position of a task whose end is not known yet
    std::array<std::uint8_t, kLanes> waiting{};     ///< bits of the lanes that wait for a task of the lane
    std::uint8_t open = kAllLanes;                  ///< bit by lane: it is not through and waits for nobody
    bool listed = false;                            ///< the role is awake

    static constexpr std::uint8_t bit(std::size_t lane) { return static_cast<std::uint8_t>(1U << lane); }
    bool is_open(std::size_t lane) const { return (open & bit(lane)) != 0; }
    void shut_lane(std::size_t lane) { open = static_cast<std::uint8_t>(open & ~bit(lane)); }
    void open_lane(std::size_t lane) { open |= bit(lane); }
    void wait(std::size_t lane, std::uint8_t other, std::uint32_t position) {
      waits_for[lane] = position;
      waiting[other] |= bit(lane);
      shut_lane(lane);
    }
    void pass(std::size_t lane, std::uint32_t position) {
      passed[lane] = position;
      if (waiting[lane] != 0) release(lane);
    }
    void release(std::size_t lane) {
      for (unsigned left = waiting[lane]; left != 0; left &= left - 1) {
        const auto other = static_cast<std::size_t>(std::countr_zero(left));
        if (passed[lane] <= waits_for[other]) continue;
        waiting[lane] = static_cast<std::uint8_t>(waiting[lane] & ~bit(other));
        open_lane(other);
      }
    }
  };
  /// What an exchange of a role touches is four cache lines: gates, two cursors, and what follows these up to Record::roles.
  struct alignas(64) RoleState {
    Gates gates;
    alignas(64) std::array<Cursor, kLanes> cursors;
    const LaneProgram* lane_program;
    const RunTask* steps;
    const std::uint32_t* exchanges;
    const RunTable* run_table;
    const JitterDelays* jitter;
    std::int32_t rank;
    std::uint32_t parted = 0;  ///< instances whose runs were parted
    Record record;
    const RoleDelays* delays;
  };
  /// What is known about an instance before it is simulated.
  struct Arrival {
    std::int64_t ready = 0;                          ///< end of all that the first task waits for
    std::array<std::int64_t, kPatternLanes> late{};  ///< of the host, by lane
    std::array<const LaneEdge*, kPatternLanes> edge{};          ///< the first of later instances, by lane
    std::vector<std::pair<std::uint16_t, std::int64_t>> after;  ///< of other tasks: ends of what they wait for
  };
  struct Participant {
    std::uint32_t role, lane;
    std::int64_t ready;
  };
  /// An exchange on its way. One cache line, as its events come by the thousand and never twice in a row.
  struct alignas(64) Pending {
    std::int64_t first = 0, last = 0;
    Duration tail, alone;
    std::uint32_t participants = 0;  ///< its first in `participants_`
    std::uint32_t arrived = 0, parties = 1;
    std::uint32_t segments = 0;            ///< first of its chains in `segments_`, one after the other
    std::array<std::uint32_t, 2> count{};  ///< segments of each chain
    std::uint8_t running = 0;              ///< chains still moving bytes
    bool contends = false;
  };
  enum class Kind { stream, host, worker };
  enum class Entry { waits, begun, passed };

  void wake(std::uint32_t role) {
    if (std::exchange(roles_[role].gates.listed, true)) return;
    awake_.push_back(role);
  }
  void drain();
  void set_free();
  inline void advance(std::uint32_t role);
  bool go(std::uint32_t role, std::size_t lane);
  /// Written into its callers' loops: most walks are a task or two long, and calling them took a tenth of all the engine's instructions.
  template <Kind kind>
  [[gnu::always_inline]] inline bool walk(std::uint32_t role, std::size_t lane);
  template <Kind kind>
  inline bool ready_time(RoleState& role, std::size_t lane, Cursor& c, std::int64_t& ready);
  /// What the host takes from the step's start to the issue of the cursor's task.
  std::int64_t issue(const Cursor& c) const { return static_cast<std::int64_t>(c.host + c.task->issued) * host_.launch.ps(); }
  /// Of a task of the cursor's instance, in `times_`.
  static std::uint32_t place(const Cursor& c, const RunTask& step) { return c.first + (c.singly ? step.singly : step.in_runs); }
  /// Whether a run that is ready goes on without a stop: the host is not late for any task of it, and none waits for another
  /// instance.
  bool unbroken(const Cursor& c, const RunTask& step, std::int64_t ready) const {
    return c.host_late + issue(c) - ready <= step.slack && c.edge->to > c.base + step.last;
  }
  inline void walk_run(RoleState& role, std::size_t lane, Cursor& c, std::int64_t ready);
  void part(RoleState& role, std::uint32_t instance);
  bool next_instance(RoleState& role, std::size_t lane, Cursor& c) const;
  Entry enter(std::uint32_t role, std::size_t lane, Cursor& c);
  inline Entry begin_tasks(RoleState& role, Cursor& c, InstanceRecord& p);
  inline std::uint32_t new_times(std::uint32_t count);
  void add_times();
  InstanceRecord& instance_record(const RoleState& role, std::uint32_t instance) {
    return times_.instances[role.record.first_instance + instance * role.record.roles];
  }
  void place_records();
  std::size_t mark_delayed(const RoleState& role);
  /// What a task of the cursor's instance takes beyond its slot's `duration`.
  static std::int64_t delay(const RoleState& role, const Cursor& c, const LaneTask& task, std::int64_t duration) {
    const std::int64_t overlap = role.delays != nullptr ? role.delays->of(c.instance, task.task) : 0;
    return role.jitter == nullptr ? overlap : overlap + role.jitter->of(role.rank, c.base + task.task, task.slot, duration);
  }
  std::size_t room_for_times() const;
  inline bool bring_tensor_lane(std::uint32_t role, const Cursor& c);
  inline Entry pass(std::uint32_t role, TimedTemplateId timed, Cursor& c, InstanceRecord& p);
  inline Entry meet_edges(RoleState& role, const TimedTemplate& s, std::size_t lane);
  inline const Circumstances& circumstances(const TimedTemplate& s, const Cursor& c, const Cursor& tensor, std::int64_t start);
  inline void arrive(Participant participant, std::uint32_t exchange);
  inline void begin(std::uint32_t exchange);
  inline void start_chains(std::uint32_t exchange);
  inline void finish(std::uint32_t exchange, Duration end);
  inline void handle(const Event& event);
  inline void expect(std::uint32_t target) const;
  inline void expect(const Participant& participant) const;
  inline void expect_records(const Participant& participant) const;
  inline void expect_walk(const RoleState& role) const;

  const std::vector<LaneTemplate>& templates_;
  Patterns& patterns_;
  Host host_;
  EventQueue queue_;
  Network network_;
  std::vector<RoleState> roles_;
  std::vector<Pending> pending_;  ///< by exchange
  std::vector<Participant> participants_;
  std::vector<std::uint32_t> exchanges_;  ///< that roles take part in, role by role
  Times times_;
  std::size_t taken_times_ = 0;  ///< of `times_.ended`
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> awake_;
  struct Finished {
    std::uint32_t exchange;
    Duration end;
  };
  std::vector<Finished> finished_;  ///< by events of this time, their parties not yet told
  bool stepped_ = false;          ///< some instance went in one step
  Arrival arrival_;               // scratch
  Circumstances circumstances_;   // scratch
};

}  // namespace tandem::sim
