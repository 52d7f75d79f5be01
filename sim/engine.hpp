#pragma once
// Plays all roles at once. Each role is walked eagerly, lane by lane, as far as what is known allows: a task whose
// issue, lane and dependencies are known is a few additions, whatever the simulated time, a run of tasks that wait for nobody
// (sim/course) is no more than one task, and an instance whose pattern is known (sim/pattern) is one step. Only what can contend for
// links or processors goes through the event queue, at its start.
//
// Why this is causal. A walk happens at the beginning or right after an event at time t; it may go on only because that
// event ended an exchange at some time >= t. Whatever it newly reaches starts no earlier than what released it, hence
// at or after t: no event is ever scheduled in the past (EventQueue checks it), and no walk can change what already
// happened. All arrival times are maxima and sums, so the order in which roles are walked does not matter. Instances in one step
// are the exception: their early tasks become known only with the causes of their late ones. An exchange that would then start in
// the past is held, its parties are stuck, and the step is walked again task by task.

#include <cstdint>
#include <vector>

#include "sim/event_queue.hpp"
#include "sim/itinerary.hpp"
#include "sim/network.hpp"
#include "sim/quotient.hpp"
#include "sim/record.hpp"

namespace tandem::sim {

/// How the host issues tasks.
struct Host {
  Duration launch;  ///< of one operation; a task has one or more
  bool synchronous = false;
};

/// What a role plays; the references outlive the engine.
struct Part {
  const Itinerary& itinerary;
  const std::vector<std::uint32_t>& exchanges;  ///< that the steps count
  const Course& course;
  const RoleDelays* delays = nullptr;  ///< or none
};

class Engine {
 public:
  /// References outlive the engine.
  Engine(const Quotient& quotient, const std::vector<LaneTemplate>& templates, Patterns& patterns, Host host);

  void add(Part part);
  /// Plays until nothing moves.
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
  static constexpr std::uint8_t kNoLane = UINT8_MAX;

  struct Cursor {
    const LaneTask* task = nullptr;  ///< next one; nullptr: the lane is through
    const LaneTask* end = nullptr;
    std::int64_t free = 0;
    std::int64_t host_late = 0;  ///< the host has waited for so long before it issued this lane's next task
    std::uint64_t host = 0;   ///< operations of the host before the current instance
    std::uint32_t base = 0;   ///< position of the current instance
    std::uint32_t first = 0;  ///< of its times in `times_`
    std::uint32_t instance = 0;
    std::uint32_t item = 0;  ///< next entry of LaneProgram::instances
    std::uint32_t edge = 0;
    bool entered = false;    ///< the instance is played, and not by a pattern
    bool singly = false;     ///< task by task, not in runs
  };
  /// Which lanes of a role can go on: all that a wake-up looks at where they cannot.
  struct Gates {
    std::array<std::uint32_t, kLanes> passed{};     ///< tasks of the lane at positions before this have ended
    std::array<std::uint32_t, kLanes> waits_for{};  ///< position of a task whose end is not known yet
    std::array<std::uint8_t, kLanes> waits_lane{kNoLane, kNoLane, kNoLane, kNoLane, kNoLane, kNoLane};  ///< of that task, or kNoLane
    std::uint8_t shut = 0;  ///< bit by lane: it is through, or waits for others
    bool listed = false;    ///< the role is awake

    bool open(std::size_t lane) const {
      const std::uint8_t other = waits_lane[lane];
      return (shut >> lane & 1) == 0 && (other == kNoLane || passed[other] > waits_for[lane]);
    }
    void shut_lane(std::size_t lane) { shut = static_cast<std::uint8_t>(shut | 1U << lane); }
    void open_lane(std::size_t lane) { shut = static_cast<std::uint8_t>(shut & ~(1U << lane)); }
    void wait(std::size_t lane, std::uint8_t other, std::uint32_t position) { waits_lane[lane] = other, waits_for[lane] = position; }
    void stop_waiting(std::size_t lane) { waits_lane[lane] = kNoLane; }
  };
  struct alignas(64) RoleState {
    Gates gates;
    const Itinerary* itinerary;
    const Step* steps;
    const std::uint32_t* exchanges;
    const Course* course;
    const RoleDelays* delays;
    std::uint32_t parted = 0;  ///< instances whose runs were parted
    Record record;
    std::array<Cursor, kLanes> cursors;
  };
  /// What is known about an instance before it is played.
  struct Arrival {
    std::int64_t ready = 0;                          ///< end of all that the first task waits for
    std::array<std::int64_t, kPatternLanes> late{};  ///< of the host, by lane
    std::array<std::uint32_t, kPatternLanes> edge{};            ///< the first of later instances, by lane
    std::vector<std::pair<std::uint16_t, std::int64_t>> after;  ///< of other tasks: ends of what they wait for
  };
  struct Seat {
    std::uint32_t role, lane;
    std::int64_t ready;
  };
  /// An exchange on its way. One cache line, as its events come by the thousand and never twice in a row.
  struct alignas(64) Pending {
    std::int64_t first = 0, last = 0;
    Duration tail, alone;
    std::uint32_t seats = 0;  ///< its first in `seats_`
    std::uint32_t arrived = 0, parties = 1;
    std::uint32_t segments = 0;            ///< first of its chains in `segments_`, one after the other
    std::array<std::uint32_t, 2> count{};  ///< segments of each chain
    std::uint8_t running = 0;              ///< chains still moving bytes
    bool contends = false;
  };
  enum class Kind { stream, host, worker };
  enum class Entry { waits, played, passed };

  void wake(std::uint32_t role);
  void drain();
  void set_free();
  void advance(std::uint32_t role);
  bool move(std::uint32_t role, std::size_t lane);
  template <Kind kind>
  bool walk(std::uint32_t role, std::size_t lane);
  template <Kind kind>
  bool ready_time(RoleState& role, std::size_t lane, Cursor& c, const LaneTemplate& tmpl, std::int64_t& ready);
  /// What the host takes from the step's start to the issue of the cursor's task.
  std::int64_t issue(const Cursor& c) const { return static_cast<std::int64_t>(c.host + c.task->issued) * host_.launch.ps(); }
  /// Of a task of the cursor's instance, in `times_`.
  static std::uint32_t place(const Cursor& c, const Step& step) { return c.first + (c.singly ? step.singly : step.in_runs); }
  bool unbroken(const RoleState& role, std::size_t lane, const Cursor& c, const Step& step, std::int64_t ready) const;
  void part(RoleState& role, std::uint32_t instance);
  bool next_instance(RoleState& role, std::size_t lane, Cursor& c) const;
  Entry enter(std::uint32_t role, std::size_t lane, Cursor& c);
  Entry play(RoleState& role, Cursor& c);
  std::uint32_t new_times(std::uint32_t count);
  Passage& passage(const RoleState& role, std::uint32_t instance) {
    return times_.passages[role.record.passage + instance * role.record.roles];
  }
  void place_records();
  bool bring_tensor_lane(std::uint32_t role, const Cursor& c);
  Entry pass(std::uint32_t role, StretchId stretch, Cursor& c);
  Entry meet_edges(RoleState& role, const Stretch& s, std::size_t lane);
  const Circumstances& circumstances(const Stretch& s, const Cursor& c, const Cursor& tensor, std::int64_t start);
  void arrive(const Seat& seat, std::uint32_t exchange);
  void begin(std::uint32_t exchange);
  void start_chains(std::uint32_t exchange);
  void finish(std::uint32_t exchange, Duration end);
  void handle(const Event& event);
  void expect(std::uint32_t target) const;
  void expect(const Seat& seat) const;
  void expect_records(const Seat& seat) const;
  void expect_walk(const RoleState& role) const;

  const std::vector<LaneTemplate>& templates_;
  Patterns& patterns_;
  Host host_;
  EventQueue queue_;
  Network network_;
  std::vector<RoleState> roles_;
  std::vector<Pending> pending_;  ///< by exchange
  std::vector<Seat> seats_;
  std::vector<std::uint32_t> exchanges_;  ///< that roles take part in, role by role
  Times times_;
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
