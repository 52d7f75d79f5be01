#include "experiments/tandem/search/judge.hpp"

#include <algorithm>

#include "experiments/tandem/base/rehearsal.hpp"
#include "models/plan/mesh.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/resolve.hpp"
#include "sim/result/error_book.hpp"
#include "sim/result/simulate.hpp"

namespace tandem::search {

namespace {

std::string text_of(Problem p) {
  p.file.clear();
  return p.message();
}

bool is_of_sharding(const std::string& field) {
  return field.starts_with("parallel.zero_") || field.starts_with("parallel.offload.");
}

}  // namespace

/// A closed form for one thread's use: their caches stay warm.
class Judge::Lease {
 public:
  explicit Lease(const Judge& judge) : judge_(judge) {
    const std::lock_guard lock(judge.mutex_);
    if (judge.forms_.empty()) {
      form_ = std::make_unique<sim::ClosedForm>(*judge.topology_, *judge.cost_);
      return;
    }
    form_ = std::move(judge.forms_.back());
    judge.forms_.pop_back();
  }
  ~Lease() {
    const std::lock_guard lock(judge_.mutex_);
    judge_.forms_.push_back(std::move(form_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  sim::ClosedForm& form() { return *form_; }

 private:
  const Judge& judge_;
  std::unique_ptr<sim::ClosedForm> form_;
};

Judge::Judge(const Space& space, Lenience lenience)
    : space_(space),
      lenience_(lenience),
      topology_(program::topology_of(space.question().draft.plan, "")),
      cost_(sim::make_cost_model(*topology_)),
      room_(lenience.any_memory ? kAnyRoom : topology_->device().usable_memory.count() / topology_->ranks_per_device()),
      floors_(*topology_, *cost_) {
  std::int64_t left = space.groups();
  for (; outer_axes_ < space.axes().size() && left > 1; ++outer_axes_)
    left /= static_cast<std::int64_t>(space.axes()[outer_axes_].values.size());
  for (std::size_t a = outer_axes_; a < space.axes().size(); ++a)
    memory_by_member_ = memory_by_member_ || is_of_sharding(space.axes()[a].field);
}

bool Judge::is_of_members(const std::string& field) const {
  for (std::size_t a = outer_axes_; a < space_.axes().size(); ++a)
    if (space_.axes()[a].field == field && space_.axes()[a].values.size() > 1) return true;
  return false;
}

std::optional<Fate> Judge::idle(CandidateId id, const Plan& plan, std::string& reason) const {
  const Choice chosen = space_.choice(id);
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    const Axis& axis = space_.axes()[a];
    if (chosen[a] == 0 || !is_idle(plan, axis.field)) continue;
    reason = axis.field + " changes nothing here: the step of " + axis.name + " " + axis.values.front().text;
    return Fate::same;
  }
  return std::nullopt;
}

/// Whether states are sharded over one rank and the step is that of the axis' first value. Some stacks have other types or buckets with
/// ZeRO, so the estimates are asked.
bool Judge::shards_over_one(CandidateId id, const Plan& plan, const sim::Estimate& e, sim::ClosedForm& form) const {
  const std::ptrdiff_t axis = space_.axis_of("parallel.zero_stage");
  const bool several = shard_group_size(plan) > 1 || (plan.model.moe.num_experts > 0 && expert_shard_group_size(plan) > 1);
  if (axis < 0 || plan.parallel.zero_stage == 0 || several || e.outside == sim::Outside::layout) return false;
  const CandidateId twin = space_.first_of(id, static_cast<std::size_t>(axis));
  const Plan other = space_.plan(twin);
  if (twin == id || !plan_problems(other).empty() || !refusal_of_stack(other).empty()) return false;
  const sim::Estimate t = form.quick(other);
  return t.outside == e.outside && t.step_time == e.step_time && t.memory == e.memory;
}

std::string Judge::refusal_of_stack(const Plan& plan) const {
  if (lenience_.any_stack) return "";
  const std::vector<Problem> problems = stack_problems(plan, plan.stack.name, plan.stack.as_of);
  return problems.empty() ? "" : text_of(problems.front());
}

GroupView Judge::group(std::int64_t group) const {
  const CandidateId first = group * space_.members();
  GroupView out;
  const auto refused = [&](Fate fate, std::string reason) { return out.fate = fate, out.reason = std::move(reason), out; };
  if (!space_.divides(first)) return refused(Fate::devices, "tensor x pipeline x context (x data) does not give the number of devices");
  Plan plan = space_.plan(first);
  const auto others = [&](const Problem& p) { return !is_of_members(p.field); };
  for (const Problem& p : plan_problems(plan))
    if (others(p)) return refused(Fate::layout, text_of(p));
  for (const Problem& p : lowering_gaps(plan))
    if (others(p)) return refused(Fate::unlowered, text_of(p));
  std::string reason;
  if (idle(first, plan, reason)) return refused(Fate::same, reason);
  const LayerFloor& layer = floors_.of(plan);
  out.floor_ps = time_floor(plan, layer);
  for (std::int64_t m = 0; m < space_.members(); ++m) {
    if (m > 0 && memory_by_member_) {
      const Choice chosen = space_.choice(first + m);
      for (std::size_t a = outer_axes_; a < chosen.size(); ++a) space_.axes()[a].values[chosen[a]].set(plan);
    }
    const bool same = m > 0 && !memory_by_member_;
    out.memory_floors.push_back(same ? out.memory_floors.front() : memory_floor(plan, layer, topology_->device()));
    const bool large = out.memory_floors.back() > room_;
    out.too_large.push_back(large);
    out.large += large ? 1 : 0;
  }
  return out;
}

std::int64_t Judge::passes_floor(std::int64_t group) const {
  const Plan plan = space_.plan(group * space_.members());
  if (plan.cluster.perturbation.any()) return 0;
  return static_cast<std::int64_t>(static_cast<double>(Lease(*this).form().passes(plan).ps()) * (1 - kTimeError));
}

/// Whether a plan with ZeRO 2 or 3, which has no recurrence for its memory, does not fit for what it needs with ZeRO 1.
bool Judge::surely_large(const Plan& plan, sim::ClosedForm& form) const {
  if (plan.parallel.zero_stage < 2) return false;
  Plan unsharded = plan;
  unsharded.parallel.zero_stage = 1;
  unsharded.parallel.zero_group = 0;
  const sim::Estimate e = form.quick(unsharded);
  const double least = static_cast<double>(e.memory.count()) * (1 - kMemoryError) - static_cast<double>(most_saved(plan));
  return e.outside != sim::Outside::layout && least > static_cast<double>(room_);
}

CandidateView Judge::candidate(CandidateId id) const {
  CandidateView out;
  const auto refused = [&](Fate fate, std::string reason) { return out.fate = fate, out.reason = std::move(reason), out; };
  const Plan plan = space_.plan(id);
  if (const Problems problems = plan_problems(plan); !problems.empty()) return refused(Fate::layout, text_of(problems.front()));
  if (const Problems gaps = lowering_gaps(plan); !gaps.empty()) return refused(Fate::unlowered, text_of(gaps.front()));
  std::string reason;
  if (idle(id, plan, reason)) return refused(Fate::same, reason);
  if (reason = refusal_of_stack(plan); !reason.empty()) return refused(Fate::stack, reason);
  Lease lease(*this);
  const auto large = [&](const sim::Estimate& e) {
    return static_cast<double>(e.memory.count()) * (1 - kMemoryError) > static_cast<double>(room_);
  };
  if (surely_large(plan, lease.form())) return out.fate = Fate::too_large, out;
  sim::Estimate e = lease.form().quick(plan);
  if (shards_over_one(id, plan, e, lease.form())) return refused(Fate::same, "parallel.zero_stage changes nothing here: one rank has all states");
  if (e.outside == sim::Outside::layout && !plan.cluster.perturbation.any()) e.memory = lease.form().memory_alive(plan);
  if (!large(e) && e.outside != sim::Outside::nothing) e = lease.form().estimate(plan, sim::Fill::alive);
  out.outside = e.outside;
  out.estimate_ps = e.step_time.ps();
  out.memory = e.memory.count();
  out.fate = e.outside == sim::Outside::layout ? Fate::simulated : Fate::estimated;
  if (large(e)) out.fate = Fate::too_large;
  return out;
}

Simulated Judge::simulate(CandidateId id) const {
  const Plan plan = space_.plan(id);
  const TaskGraph graph = lower(plan);
  // What a rank needs is never less than its live tensors: whether these fit is known before the time is.
  std::int64_t live = 0;
  for (const Program& program : graph.programs) live = std::max(live, program.memory.live_peak_bytes.count());
  live += topology_->device().runtime_memory.count();
  if (live > room_) return {.id = id, .needed = live};
  sim::SimulateOptions options;
  options.seeds_at_once = 1;
  const Prediction p = sim::simulate(plan, graph, *topology_, options);
  return {id,     p.step_time.ps(), p.range.low_s,    p.range.high_s, p.roles[neediest_role(p)].needed_bytes.count(),
          lenience_.any_memory || p.fits, true,             p.tokens_per_s,   p.mfu};
}

std::string Judge::why_wider(CandidateId id) const {
  return sim::log_range(sim::load_error_book(), {topology_->device().calibration, "", traits_of(space_.plan(id))}).wider;
}

}  // namespace tandem::search
