#pragma once
// Plays all roles at once. Each role is walked eagerly, lane by lane, as far as what is known allows: a task whose
// issue, lane and dependencies are known is a few additions, whatever the simulated time. Only what can contend for
// links or processors goes through the event queue, at its start.
//
// Why this is causal. A walk happens at the beginning or right after an event at time t; it may go on only because that
// event ended an exchange at some time >= t. Whatever it newly reaches starts no earlier than what released it, hence
// at or after t: no event is ever scheduled in the past (EventQueue checks it), and no walk can change what already
// happened. All arrival times are maxima and sums, so the order in which roles are walked does not matter.

#include <cstdint>
#include <vector>

#include "sim/event_queue.hpp"
#include "sim/itinerary.hpp"
#include "sim/network.hpp"
#include "sim/quotient.hpp"

namespace tandem::sim {

/// When the parties of an exchange met, as one of them saw it. Picoseconds.
struct Meeting {
  std::int64_t ready = -1;    ///< this role could start
  std::int64_t started = -1;  ///< the last party had arrived
  std::int64_t first = -1;    ///< the first party had arrived
};

/// What happened to one role. Picoseconds from the start of the step; -1: never.
struct Record {
  std::vector<std::int64_t> ended;           ///< by position
  std::vector<std::int64_t> issued;          ///< by position; empty where task n is issued at n launches
  std::vector<Meeting> meetings;             ///< of the tasks that are exchanges, in order of position
  std::vector<std::uint32_t> first_meeting;  ///< by instance
  Duration end;                              ///< of the role's last task
};

/// How the host issues tasks.
struct Host {
  Duration launch;
  bool synchronous = false;
};

/// What a role plays; the references outlive the engine.
struct Part {
  const Itinerary& itinerary;
  const std::vector<Slot>& slots;
  std::vector<std::uint32_t> meeting_in_template;  ///< by slot: its number among the exchanges of its template
  const std::int64_t* delays = nullptr;  ///< by position: beyond the slot's duration, where it is no exchange; or none
};

class Engine {
 public:
  Engine(const Quotient& quotient, const std::vector<LaneTemplate>& templates, Host host);

  void add(Part part);
  /// Plays until nothing moves.
  void run();

  struct Stuck {
    std::uint32_t role, position;
  };
  /// The task each lane still waits to end or to start; empty after a run that reached its end.
  std::vector<Stuck> stuck() const;

  std::vector<Record> take_records();
  std::int64_t events() const { return queue_.popped(); }

 private:
  static constexpr std::uint32_t kNothing = UINT32_MAX;

  struct Cursor {
    const LaneTask* task = nullptr;  ///< next one; nullptr: the lane is through
    const LaneTask* end = nullptr;
    const std::uint16_t* deps = nullptr;
    std::uint32_t base = 0;  ///< position of the current instance
    std::uint32_t instance = 0;
    std::uint32_t item = 0;  ///< next entry of LaneProgram::instances
    std::uint32_t edge = 0;
    std::uint32_t waits_for = kNothing;  ///< position whose end is not known yet
    bool meeting = false;                ///< waits for others
    std::int64_t free = 0;
    std::int64_t host_late = 0;  ///< the host has waited for so long before it issued this lane's next task
  };
  struct RoleState {
    const Itinerary* itinerary;
    const Slot* slots;
    std::vector<std::uint32_t> meeting_in_template;
    const std::int64_t* delays;
    Record record;
    std::array<Cursor, kLanes> cursors;
    bool listed = false;
  };
  struct Seat {
    std::uint32_t role, lane, position, meeting;
  };
  struct Pending {
    std::vector<Seat> seats;
    std::int64_t first = 0, last = 0;
    int running = 0;  ///< chains still moving bytes
  };
  enum class Kind { stream, host, worker };

  void count_meetings(RoleState& role) const;
  void wake(std::uint32_t role);
  void drain();
  void advance(std::uint32_t role);
  bool move(std::uint32_t role, std::size_t lane);
  template <Kind kind>
  bool walk(std::uint32_t role, std::size_t lane);
  template <Kind kind>
  bool ready_time(RoleState& role, std::size_t lane, Cursor& c, std::int64_t& ready) const;
  bool next_instance(const RoleState& role, std::size_t lane, Cursor& c) const;
  void arrive(const Seat& seat, std::int64_t ready, std::uint32_t exchange);
  void begin(std::uint32_t exchange);
  void start_chains(std::uint32_t exchange);
  void finish(std::uint32_t exchange, Duration end);
  void handle(const Event& event);

  const Quotient& quotient_;
  const std::vector<LaneTemplate>& templates_;
  Host host_;
  EventQueue queue_;
  Network network_;
  std::vector<RoleState> roles_;
  std::vector<Pending> pending_;  ///< by exchange
  std::vector<std::uint32_t> awake_;
};

}  // namespace tandem::sim
