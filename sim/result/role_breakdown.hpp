#pragma once
// Names every picosecond of one role's compute stream.

#include <cstdint>

#include "sim/result/breakdown.hpp"
#include "sim/result/role_causes.hpp"

namespace tandem::sim {

/// A part of a simulated step, in picoseconds; time outside is not counted.
struct Window {
  std::int64_t from, to;
};

/// How long a role waited for launches of other roles' hosts, in picoseconds.
class OtherRoles {
 public:
  /// Exchange `w` of `role` waited for another role in [from, to). Returns the part in which that role's host launched.
  virtual std::int64_t launching_before(std::size_t role, Place w, std::int64_t from, std::int64_t to, Window window) = 0;
  /// The part of [from, to), the end of the step, in which the host of the role that ends last launched.
  virtual std::int64_t launching_at_end(std::int64_t from, std::int64_t to) = 0;

 protected:
  ~OtherRoles() = default;
};

/// Breaks down one role of a step. References must outlive it.
class RoleBreakdown {
 public:
  RoleBreakdown(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role, BreakdownTables& tables,
                OtherRoles& others);

  Breakdown run(Window window);
  /// Task `w` became ready at `to`. Returns the part of [from, to), inside `window`, in which the host launched. Other roles call
  /// this, maybe while this role asks them.
  std::int64_t launching(std::int64_t from, std::int64_t to, Place w, Window window);
  /// Part of the time from `from` to the role's end in which the host launched.
  std::int64_t launching_to_end(std::int64_t from);

 private:
  void compute(Place w, std::int64_t from, std::int64_t to);
  void add(Share share, std::int64_t from, std::int64_t to);
  void add_wait(std::int64_t from, std::int64_t to, std::int64_t launching);
  std::int64_t computations(std::uint32_t i, std::uint16_t t, std::int64_t done);
  std::int64_t patterned(std::uint32_t i, const InstanceRecord& p, std::int64_t done);
  std::int64_t computation(Place w, std::int64_t done);
  void tail(std::int64_t done);
  void explain(std::int64_t lo, std::int64_t hi, Place waiter);
  std::int64_t busy(std::int64_t lo, std::int64_t hi, Place w);
  void waited(std::int64_t from, std::int64_t to, Place w);
  std::int64_t launches(std::int64_t lo, std::int64_t hi, Place& waiter);

  const SimulatedStep& simulated_;
  const TaskGraph& graph_;
  const std::size_t role_;
  const Record& record_;
  BreakdownTables& tables_;
  OtherRoles& others_;
  RoleCauses causes_;
  Window window_{};
  Breakdown out_;
};

}  // namespace tandem::sim
