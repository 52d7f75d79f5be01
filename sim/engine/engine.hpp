#pragma once
// Simulates all roles together. Each role is walked eagerly, lane by lane, as far as known times allow, whatever the simulated
// time. A task whose issue time, lane and dependencies are known costs a few additions. A run of tasks that wait only for their
// predecessor (sim/engine/run_table) costs no more than one task. An instance with a known pattern (sim/engine/pattern) is one
// step. Only an exchange that can contend for links or processors enters the event queue, at its start.
//
// Why this is causal: a walk happens at the beginning or right after an event at time t. It goes on only because that event
// ended an exchange at some time >= t. Tasks that it newly reaches start no earlier than this end, so at or after t. No event
// is ever scheduled in the past (EventQueue checks it), and no walk changes what already happened. Arrival times are maxima and
// sums, so the order in which roles are walked does not matter.
// The exception is an instance with a pattern: its early tasks become known only when all that its late tasks wait for is
// known. An exchange that would then start in the past is held, and its parties are stuck. In this case the step is walked
// again task by task.

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
  Duration launch;  ///< host time to issue one operation; a task has one or more
  bool synchronous = false;  ///< the host computes itself: compute and tensor streams run on its thread
};

/// The program of a role. The references outlive the engine.
struct Part {
  const LaneProgram& lane_program;
  const std::vector<std::uint32_t>& exchanges;  ///< indices of the role's exchanges; RunTask::exchange counts them
  const RunTable& run_table;
  const RoleDelays* delays = nullptr;   ///< by overlapping collectives; null: none
  const JitterDelays* jitter = nullptr;  ///< null: none
  std::int32_t rank = 0;                 ///< whose jitter is drawn
};

class Engine {
 public:
  /// The references must outlive the engine. `memory`: buffers of an earlier walk to reuse; their times are erased.
  Engine(const Quotient& quotient, const std::vector<LaneTemplate>& templates, Patterns& patterns, Host host, Times memory = {});

  void add(Part part);
  /// Simulates until no role can go on.
  void run();

  struct Stuck {
    std::uint32_t role, position;
  };
  /// The next task of every lane that has not finished; empty after a run that reached its end.
  std::vector<Stuck> stuck() const;

  std::vector<Record> take_records();
  Times take_times() { return std::move(times_); }
  std::int64_t events() const { return queue_.popped(); }

 private:
  static constexpr std::uint8_t kAllLanes = (1U << kLanes) - 1;
  /// Limit of instances of a role whose runs are split because the host is late. Later instances are simulated task by task.
  static constexpr std::uint32_t kMostParted = 64;
  /// Times::ended grows by at least this many entries at once.
  static constexpr std::size_t kTimesAtOnce = 1024;

  struct alignas(64) Cursor {
    const LaneTask* task = nullptr;  ///< next task; nullptr: the lane has finished
    const LaneTask* end = nullptr;
    const LaneEdge* edge = nullptr;  ///< next dependency on another instance
    std::int64_t free = 0;   ///< ps: end of the lane's last simulated task
    std::int64_t host_late = 0;  ///< ps that the host's waits delay this lane's next task
    std::uint64_t host = 0;   ///< host operations that issue all earlier instances
    std::uint32_t base = 0;   ///< position of the current instance's first task
    std::uint32_t first = 0;  ///< index of its times in Times::ended
    std::uint32_t instance = 0;
    std::uint32_t item : 30 = 0;    ///< next entry of LaneOrder::instances
    std::uint32_t entered : 1 = 0;  ///< the instance is being simulated without a pattern
    std::uint32_t singly : 1 = 0;   ///< it is simulated task by task, not in runs
  };
  /// Which lanes of a role can go on. A wake-up that finds no open lane reads nothing else.
  struct Gates {
    std::array<std::uint32_t, kLanes> passed{};     ///< tasks of the lane at positions before this have ended
    std::array<std::uint32_t, kLanes> waits_for{};  ///< position of the task it waits for, whose end is not known yet
    std::array<std::uint8_t, kLanes> waiting{};     ///< bits of the lanes that wait for a task of the lane
    std::uint8_t open = kAllLanes;                  ///< one bit a lane: it has not finished and waits for nobody
    bool listed = false;                            ///< the role is in `awake_`

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
  /// State of a role. An exchange touches four cache lines of it: gates, two cursors, and the fields after these to Record::roles.
  struct alignas(64) RoleState {
    Gates gates;
    alignas(64) std::array<Cursor, kLanes> cursors;
    const LaneProgram* lane_program;
    const RunTask* steps;
    const std::uint32_t* exchanges;
    const RunTable* run_table;
    const JitterDelays* jitter;
    std::int32_t rank;
    std::uint32_t parted = 0;  ///< instances whose runs were split (kMostParted)
    Record record;
    const RoleDelays* delays;
  };
  /// The waits of an instance, in ps, collected before a pattern simulates it.
  struct Arrival {
    std::int64_t ready = 0;                          ///< latest end among what the first task waits for
    std::array<std::int64_t, kPatternLanes> late{};  ///< by lane: delay by the host's waits
    std::array<const LaneEdge*, kPatternLanes> edge{};          ///< by lane: first dependency of a later instance
    std::vector<std::pair<std::uint16_t, std::int64_t>> after;  ///< (other task, end of what it waits for)
  };
  struct Participant {
    std::uint32_t role, lane;
    std::int64_t ready;  ///< ps: when it arrived
  };
  /// An exchange under way. It fills one cache line: thousands are under way, and consecutive events concern different ones.
  struct alignas(64) Pending {
    std::int64_t first = 0, last = 0;  ///< ps: first and last arrival
    Duration tail, alone;              ///< see Exchange
    std::uint32_t participants = 0;  ///< index of its first in `participants_`
    std::uint32_t arrived = 0, parties = 1;  ///< participants so far, and needed
    std::uint32_t segments = 0;            ///< index of its first in `segments_`; one chain follows the other
    std::array<std::uint32_t, 2> count{};  ///< segments of each chain
    std::uint8_t running = 0;              ///< chains still moving bytes
    bool contends = false;                 ///< others may use its links; else it takes `alone`
  };
  enum class Kind { stream, host, worker };  ///< a lane: a device's stream; of a synchronous device: lane 0, any other lane
  enum class Entry { waits, begun, passed };  ///< state of an instance: not begun; simulated in runs or tasks; simulated by a pattern

  void wake(std::uint32_t role) {
    if (std::exchange(roles_[role].gates.listed, true)) return;
    awake_.push_back(role);
  }
  void drain();     ///< advances all roles in `awake_`
  void set_free();  ///< ends the exchanges in `finished_`
  inline void advance(std::uint32_t role);         ///< walks a role's open lanes until none can go on
  bool go(std::uint32_t role, std::size_t lane);   ///< walks one open lane; returns whether it moved
  /// Inlined into its callers' loops: most walks cover one or two tasks, and calls took a tenth of the engine's instructions.
  template <Kind kind>
  [[gnu::always_inline]] inline bool walk(std::uint32_t role, std::size_t lane);
  template <Kind kind>
  inline bool ready_time(RoleState& role, std::size_t lane, Cursor& c, std::int64_t& ready);
  /// ps from the step's start until the host has issued the cursor's task, if the host never waits.
  std::int64_t issue(const Cursor& c) const { return static_cast<std::int64_t>(c.host + c.task->issued) * host_.launch.ps(); }
  /// Index in Times::ended of a task of the cursor's instance.
  static std::uint32_t place(const Cursor& c, const RunTask& step) { return c.first + (c.singly ? step.singly : step.in_runs); }
  /// Whether a run that is ready at `ready` goes on without a stop: the host is late for none of its tasks, and none waits for
  /// another instance.
  bool unbroken(const Cursor& c, const RunTask& step, std::int64_t ready) const {
    return c.host_late + issue(c) - ready <= step.slack && c.edge->to > c.base + step.last;
  }
  inline void walk_run(RoleState& role, std::size_t lane, Cursor& c, std::int64_t ready);
  void part(RoleState& role, std::uint32_t instance);  ///< switches an instance from runs to single tasks
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
  /// Extra ps of a task of the cursor's instance beyond its slot's `duration`: overlap and jitter.
  static std::int64_t delay(const RoleState& role, const Cursor& c, const LaneTask& task, std::int64_t duration) {
    const std::int64_t overlap = role.delays != nullptr ? role.delays->of(c.instance, task.task) : 0;
    return role.jitter == nullptr ? overlap : overlap + role.jitter->of(role.rank, c.base + task.task, task.slot, duration);
  }
  std::size_t room_for_times() const;
  inline bool bring_tensor_lane(std::uint32_t role, const Cursor& c);
  inline Entry pass(std::uint32_t role, TimedTemplateId timed, Cursor& c, InstanceRecord& p);
  inline Entry meet_edges(RoleState& role, const TimedTemplate& s, std::size_t lane);
  inline const InstanceWaits& instance_waits(const TimedTemplate& s, const Cursor& c, const Cursor& tensor, std::int64_t start);
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
  std::vector<std::uint32_t> exchanges_;  ///< indices into `pending_`, role by role
  Times times_;
  std::size_t taken_times_ = 0;  ///< entries of Times::ended in use
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> awake_;
  struct Finished {
    std::uint32_t exchange;
    Duration end;
  };
  std::vector<Finished> finished_;  ///< their last event was at the current time; their parties are not told yet
  bool stepped_ = false;          ///< some instance was simulated by a pattern
  Arrival arrival_;               // scratch
  InstanceWaits waits_;   // scratch
};

}  // namespace tandem::sim
