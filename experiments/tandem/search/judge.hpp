#pragma once
// Says of single groups and candidates what is known about them: refusals, bounds, estimates, simulations.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/search/candidate_plans.hpp"
#include "experiments/tandem/search/outcome.hpp"
#include "experiments/tandem/search/space.hpp"
#include "experiments/tandem/search/step_floor.hpp"
#include "sim/closed_form/closed_form.hpp"

namespace tandem::search {

/// What all candidates of a group have in common.
struct GroupView {
  Outcome outcome = Outcome::bounded;      ///< of all members; `bounded`: open
  std::int64_t floor_ps = 0;      ///< of the step, where it is open
  std::vector<std::int64_t> memory_floors;  ///< by member, where it is open: bytes that it needs at least
  std::vector<bool> too_large;    ///< by member, where it is open: its floor on memory is above the device's
  std::int64_t large = 0;         ///< how many these are
  std::string reason;             ///< where it is refused
};

/// One candidate of an open group.
struct CandidateView {
  Outcome outcome = Outcome::estimated;    ///< `simulated`: the closed form has no answer, so events have to give it
  std::int64_t estimate_ps = 0;   ///< 0: none
  std::int64_t memory = 0;        ///< bytes of the rank that needs most, by the closed form; 0: none
  sim::Outside outside = sim::Outside::layout;
  bool rough = false;             ///< only a lower bound is known; refine() simulates short plans (milliseconds)
  std::int64_t floor_ps = 0;      ///< of its step, where it is rough
  std::string reason;
};

/// A candidate's step by events.
struct Simulated {
  CandidateId id = 0;
  std::int64_t time_ps = 0;
  double low_s = 0, high_s = 0;   ///< where the measured time is expected, 80 % of outcomes
  std::int64_t needed = 0;        ///< bytes of the neediest rank; where there is no time, of live tensors and the runtime
  bool fits = false;
  bool timed = false;             ///< false: it does not fit, so no time was asked for
  double tokens_per_s = 0, mfu = 0;
};

/// What a closed form's figures may be off, as shares: an estimate that holds, and its memory.
inline constexpr double kTimeError = 0.01, kMemoryError = 0.1;
/// The same of memory that was read off short plans.
inline constexpr double kReadMemoryError = 0.03;

inline constexpr std::int64_t kAnyRoom = std::int64_t{1} << 60;

/// Checks that a judge skips.
struct SkippedChecks {
  bool any_stack = false;         ///< the stack's refusals (--any-stack)
  bool any_memory = false;        ///< the limit of the device's memory
};

/// For several threads. Says the same of a candidate whatever was asked before.
class Judge {
 public:
  /// `space` outlives the judge.
  Judge(const Space& space, SkippedChecks lenience);
  ~Judge();

  GroupView group(std::int64_t group) const;
  /// A sharper floor on the steps of an open group than that of group(), in more time: its passes by recurrences. 0 where there is none.
  std::int64_t passes_floor(std::int64_t group) const;
  CandidateView candidate(CandidateId id) const;
  /// More of a candidate that is rough: its memory, and its step if that could fit, off short plans. Its outcome is among the last two or
  /// too_large.
  CandidateView refine(CandidateId id) const;
  Simulated simulate(CandidateId id) const;

  const Topology& topology() const { return *topology_; }
  /// Why the range of a candidate's step time is wider than that of plans like those measured; or empty.
  std::string why_wider(CandidateId id) const;
  const Space& space() const { return space_; }
  std::int64_t room() const { return room_; }  ///< bytes that a rank may need; kAnyRoom where memory is no limit

 private:
  struct Tools;
  class Lease;
  std::string idle(CandidateId id, const Plan& plan, Tools& tools) const;
  bool large(std::int64_t memory, double error) const;
  bool shards_over_one(CandidateId id, const Plan& plan, const sim::Estimate& e, Tools& tools) const;
  const LayerFloor& floor_of(CandidateId id, const Plan& plan, Tools& tools) const;
  std::string refusal_of_stack(const Plan& plan) const;
  bool surely_large(const Plan& plan, sim::ClosedForm& form) const;
  bool is_of_members(const std::string& field) const;

  const Space& space_;
  const SkippedChecks lenience_;
  const bool disturbed_;          ///< the cluster's machines are
  std::shared_ptr<const Topology> topology_;
  std::unique_ptr<sim::CostModel> cost_;
  std::int64_t room_;
  std::size_t outer_axes_ = 0;    ///< how many of the axes make groups
  bool memory_by_member_ = false; ///< members may differ in what ZeRO and offloading leave
  mutable FloorTable floors_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Tools>> tools_;  ///< not in use
};

}  // namespace tandem::search
