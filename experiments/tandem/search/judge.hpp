#pragma once
// Judges single groups and candidates: refusals, bounds, estimates and simulations.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/search/candidate_plans.hpp"
#include "experiments/tandem/search/outcome.hpp"
#include "experiments/tandem/search/space.hpp"
#include "experiments/tandem/search/step_floor.hpp"
#include "models/base/once_map.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/resolve.hpp"
#include "sim/closed_form/closed_form.hpp"

namespace tandem::search {

/// Facts that all candidates of a group have in common.
struct GroupView {
  Outcome outcome = Outcome::bounded;      ///< of all members; `bounded`: still open
  std::int64_t floor_ps = 0;      ///< lower bound on the step time, if open
  std::vector<std::int64_t> memory_floors;  ///< by member, if open: lower bound on memory, in bytes
  std::vector<bool> too_large;    ///< by member, if open: the bound on memory exceeds the device's
  std::int64_t large = 0;         ///< number of these
  std::string reason;             ///< if it is refused
};

/// A closer look at an open group.
struct CloserLook {
  std::int64_t floor_ps = 0;      ///< lower bound on the step time
  bool sharp = false;             ///< no look raises it more
  std::optional<Counts> settled;  ///< what became of all members, but for those that GroupView counts as large
};

/// A candidate of an open group.
struct CandidateView {
  Outcome outcome = Outcome::estimated;    ///< `simulated`: there is no closed-form estimate, so it must be simulated
  std::int64_t estimate_ps = 0;   ///< 0: none
  std::int64_t memory = 0;        ///< bytes of the rank that needs most, in closed form; 0: none
  sim::Outside outside = sim::Outside::layout;
  bool rough = false;             ///< only a lower bound is known; refine() simulates short plans (milliseconds)
  std::int64_t floor_ps = 0;      ///< of the step, if rough
  std::string reason;
};

/// A candidate's simulated step.
struct Simulated {
  CandidateId id = 0;
  std::int64_t time_ps = 0;
  double low_s = 0, high_s = 0;   ///< 80 % range of the measured time
  std::int64_t needed = 0;        ///< bytes of the rank that needs most; if not timed, of live tensors and the runtime
  bool fits = false;
  bool timed = false;             ///< false: it does not fit, so its time was not simulated
  double tokens_per_s = 0, mfu = 0;
  double launches = 0;            ///< share of the step in which the critical rank waits for launches
  std::string wider{};            ///< why the range is wider than for plans like the measured ones; else empty
};

/// Largest relative error of closed forms: of an estimate of time above the step, of one below it, and of memory. Waits for context ranks
/// and for stages with other numbers of layers, which recurrences do not follow, lengthen steps.
inline constexpr double kTimeError = 0.01, kTimeBelow = 0.02, kMemoryError = 0.1;
/// Largest relative error of memory that was extrapolated from short plans.
inline constexpr double kReadMemoryError = 0.03;

/// Why a candidate is too large by a bound on its memory.
inline constexpr const char* kTooLarge = "parameters, states and kept activations alone need more";

inline constexpr std::int64_t kAnyRoom = std::int64_t{1} << 60;

/// What a judge has lowered so far. It takes most of the time of a search.
struct Lowered {
  std::size_t floors = 0;         ///< layers, for bounds
  std::size_t layers = 0;         ///< layers, for recurrences
  std::size_t short_plans = 0;    ///< groups of short plans, for estimates by events
};

/// Checks that a judge omits.
struct SkippedChecks {
  bool any_stack = false;         ///< refusals by the stack (--any-stack)
  bool any_memory = false;        ///< the device's memory limit
};

/// Whether a view says in words why something is refused. Searches refuse millions of candidates, whose words nobody reads.
enum class Reasons : std::uint8_t { left_out, told };

/// Thread-safe. A candidate's judgement does not depend on earlier calls.
class Judge {
 public:
  /// `space` must outlive the judge.
  Judge(const Space& space, SkippedChecks skipped);
  ~Judge();

  /// Bounds leave out what layers compute again.
  GroupView group(std::int64_t group, Reasons reasons = Reasons::told) const;
  /// The outcome of group() if it follows from numbers alone, without a plan: devices or batch do not divide.
  std::optional<Outcome> refused_by_numbers(std::int64_t group) const;
  /// group() of an open group with its layers' own bounds, which are higher. Slower.
  GroupView closer(std::int64_t group) const;
  /// Raises the bound of an open group, or settles it. Takes looks in order of their cost, and only as many as it takes to raise the
  /// bound: unrepeated_floor(), what refuses single members, closer(), passes_floor(). So the bounds of a group follow each other in
  /// one order, whatever the search has seen.
  CloserLook look_closer(std::int64_t group, std::int64_t floor_ps) const;
  /// A higher lower bound on the steps of an open group than group() gives, from recurrences over its passes. Slower. 0: none.
  std::int64_t passes_floor(std::int64_t group) const;
  /// passes_floor() of the group's layout without recomputation, which is a bound too, and needs no times of layers that compute
  /// modules again. 0: the group computes nothing again, or defaults depend on what it does.
  std::int64_t unrepeated_floor(std::int64_t group) const;
  CandidateView candidate(CandidateId id, Reasons reasons = Reasons::told) const;
  /// Refines a rough candidate: its memory and, if that could fit, its step, extrapolated from short plans. The outcome is
  /// estimated, simulated or too_large.
  CandidateView refine(CandidateId id) const;
  Simulated simulate(CandidateId id) const;
  /// A plan of the same model and cluster, whose id is left out.
  Simulated simulate(const Plan& plan) const;
  Lowered lowered() const { return {floors_.size(), store_->layers.size(), store_->steps.size()}; }

  const Topology& topology() const { return *topology_; }
  bool is_bound() const;          ///< the device has no calibration, so that steps are bounds
  /// The note of `simulate` about a step that the host limits; empty if it does not.
  std::string host_note(const Simulated& s) const;
  /// Advice to shorten such a step.
  std::string fewer_launches(CandidateId id) const;
  const Space& space() const { return space_; }
  std::int64_t room() const { return room_; }  ///< memory limit of a rank in bytes; kAnyRoom: no limit

 private:
  struct Tools;
  class Lease;
  enum class Bounds : std::uint8_t { simple, own };
  GroupView bounded(CandidateId first, Bounds bounds, Tools& tools) const;
  GroupView simple_bounds(std::int64_t group) const;
  std::optional<Counts> settled(CandidateId first, const GroupView& simple, const GroupView& own) const;
  std::optional<CandidateView> refusal(CandidateId id, const Plan& plan, Tools& tools, Reasons reasons) const;
  std::ptrdiff_t idle(CandidateId id, const Plan& plan, Tools& tools) const;
  std::string idle_text(std::ptrdiff_t axis) const;
  std::int64_t passes_of(CandidateId first) const;
  std::int64_t read_passes(CandidateId first) const;
  bool alone() const { return space_.members() == 1; }  ///< a group is one candidate, so group() finds all that refuses it
  bool large(std::int64_t memory, double error) const;
  bool shards_over_one(CandidateId id, const Plan& plan, const sim::Estimate& e, Tools& tools) const;
  bool is_same_step(const Plan& plan, const sim::Estimate& e, const Plan& other, sim::ClosedForm& form) const;
  const LayerFloor& floor_of(CandidateId id, const Plan& plan, Tools& tools) const;
  const LayerFloor& simple_floor_of(CandidateId id, const Plan& plan, Tools& tools) const;
  bool stack_refuses(const Plan& plan) const { return !skipped_.any_stack && breaks_stack_rule(plan); }
  bool surely_large(const Plan& plan, sim::ClosedForm& form) const;
  bool is_of_members(const std::string& field) const;

  const Space& space_;
  const SkippedChecks skipped_;
  const bool disturbed_;          ///< the cluster has a perturbation
  std::shared_ptr<const Topology> topology_;
  std::unique_ptr<sim::CostModel> cost_;
  std::shared_ptr<sim::ClosedForm::Store> store_ = std::make_shared<sim::ClosedForm::Store>();
  std::int64_t room_;
  std::vector<IdleRows> idle_rows_;  ///< by axis
  std::size_t outer_axes_ = 0;    ///< number of axes that form groups
  bool memory_by_member_ = false; ///< members may differ in memory, by ZeRO or offloading
  mutable FloorTable floors_;
  mutable OnceMap<CandidateId, std::int64_t, std::hash<CandidateId>> passes_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Tools>> tools_;  ///< free ones
};

}  // namespace tandem::search
