#include <algorithm>
#include <optional>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/search/judge_tools.hpp"
#include "models/plan/mesh.hpp"
#include "models/planfile/plan_advice.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/planfile/stage_split.hpp"
#include "models/stack/resolve.hpp"
#include "sim/memory/role_memory.hpp"
#include "sim/result/error_book.hpp"
#include "sim/result/simulate.hpp"

namespace tandem::search {

namespace {

/// Whether the plan has an automatic split, although the axis asks for a balanced one.
bool stays_automatic(const Axis& axis, CandidateId value, const Plan& plan) {
  return axis.field == kSplit && axis.values[static_cast<std::size_t>(value)].text == "balanced" && plan.parallel.pipeline_split.empty();
}

bool is_of_sharding(const std::string& field) {
  return field.starts_with("parallel.zero_") || field.starts_with("parallel.offload.");
}

/// Whether completed plans differ only in parallel.zero_stage, 1 and 0.
bool differ_in_stage(Plan plan, const Plan& other) {
  if (plan.parallel.zero_stage != 1 || other.parallel.zero_stage != 0) return false;
  plan.parallel.zero_stage = 0;
  return to_json(plan, -1) == to_json(other, -1);
}

}  // namespace

Judge::Judge(const Space& space, SkippedChecks skipped)
    : space_(space),
      skipped_(skipped),
      disturbed_(space.question().draft.plan.cluster.perturbation.any()),
      topology_(program::topology_of(space.question().draft.plan, "")),
      cost_(sim::make_cost_model(*topology_)),
      room_(skipped.any_memory ? kAnyRoom : topology_->device().usable_memory.count() / topology_->ranks_per_device()),
      floors_(*topology_, *cost_) {
  for (const Axis& axis : space.axes()) idle_rows_.push_back(idle_rows(axis.field));
  std::int64_t left = space.groups();
  for (; outer_axes_ < space.axes().size() && left > 1; ++outer_axes_)
    left /= static_cast<std::int64_t>(space.axes()[outer_axes_].values.size());
  for (std::size_t a = outer_axes_; a < space.axes().size(); ++a)
    memory_by_member_ = memory_by_member_ || is_of_sharding(space.axes()[a].field);
}

Judge::~Judge() = default;

/// The first axis without effect if a candidate has the same step as another one, else -1.
std::ptrdiff_t Judge::idle(CandidateId id, const Plan& plan, Tools& tools) const {
  const IdleFields idle(plan);
  CandidateId other = id;
  std::ptrdiff_t first = -1;
  for (std::size_t a = 0; a < space_.axes().size(); ++a) {
    const Axis& axis = space_.axes()[a];
    const CandidateId value = id / space_.stride(a) % static_cast<CandidateId>(axis.values.size());
    if (value == 0 || space_.asked(a) || !(idle.has(idle_rows_[a]) || stays_automatic(axis, value, plan))) continue;
    other -= value * space_.stride(a);
    if (first < 0) first = static_cast<std::ptrdiff_t>(a);
  }
  if (other == id) return -1;
  const auto known = tools.possible.find(other);
  if (known != tools.possible.end()) return known->second ? first : -1;
  const Plan& twin = tools.twins.of(other);
  const bool possible = plan_problems(twin).empty() && lowering_gaps(twin).empty() && !stack_refuses(twin);
  return tools.remember(other, possible), possible ? first : -1;
}

std::string Judge::idle_text(std::ptrdiff_t axis) const {
  const Axis& a = space_.axes()[static_cast<std::size_t>(axis)];
  return a.field + " changes nothing here: the step of " + a.name + " " + a.values.front().text;
}

/// True if ZeRO shards states over one rank and the step equals that of an earlier value of the axis. Some stacks change types or buckets
/// with ZeRO, so the estimates are compared, or the plans where there are none.
bool Judge::shards_over_one(CandidateId id, const Plan& plan, const sim::Estimate& e, Tools& tools) const {
  const std::ptrdiff_t axis = space_.axis_of("parallel.zero_stage");
  const bool several = shard_group_size(plan) > 1 || (plan.model.moe.num_experts > 0 && expert_shard_group_size(plan) > 1);
  if (axis < 0 || plan.parallel.zero_stage == 0 || several) return false;
  const auto stages = static_cast<std::size_t>(axis);
  for (CandidateId twin = space_.first_of(id, stages); twin < id; twin += space_.stride(stages))
    if (is_same_step(plan, e, tools.twins.of(twin), tools.form)) return true;
  return false;
}

/// Where estimates are rough, short plans decide, as in refine().
bool Judge::is_same_step(const Plan& plan, const sim::Estimate& e, const Plan& other, sim::ClosedForm& form) const {
  if (!plan_problems(other).empty() || !lowering_gaps(other).empty() || stack_refuses(other)) return false;
  const bool estimated = e.outside != sim::Outside::layout;
  if (!estimated && (disturbed_ || plan.parallel.zero_stage < 2)) return differ_in_stage(plan, other);
  const sim::Estimate t = form.quick(other);
  if (estimated && t.outside == e.outside && t.step_time == e.step_time && t.memory == e.memory) return true;
  if (disturbed_) return false;
  const auto time = [&](const sim::Estimate& of, const Plan& p) {
    return of.outside == sim::Outside::nothing ? of.step_time : form.short_time(p);
  };
  return form.memory_alive(plan) == form.memory_alive(other) && time(e, plan) == time(t, other);
}

/// True if a plan with ZeRO 2 or 3, offloading or MTP modules cannot fit: the plan without them needs too much, even less most_saved().
bool Judge::surely_large(const Plan& plan, sim::ClosedForm& form) const {
  const OffloadSpec& offload = plan.parallel.offload;
  if (!offload.activations.empty()) return false;  // how much that saves is not known
  const bool modules = plan.model.mtp.num_layers > 0;
  if (plan.parallel.zero_stage < 2 && !offload.optimizer && !offload.parameters && !modules) return false;
  Plan plain = without_modules(plan);
  if (plain.parallel.zero_stage > 1) plain.parallel.zero_stage = 1, plain.parallel.zero_group = 0;
  plain.parallel.offload = {};
  const sim::Estimate e = form.quick(plain);
  const double least = static_cast<double>(e.memory.count()) * (1 - kMemoryError) - static_cast<double>(most_saved(plan, plain));
  return e.outside != sim::Outside::layout && least > static_cast<double>(room_);
}

bool Judge::large(std::int64_t memory, double error) const {
  return static_cast<double>(memory) * (1 - error) > static_cast<double>(room_);
}

/// Remembers whether the candidate is possible, because others may be the same step.
std::optional<CandidateView> Judge::refusal(CandidateId id, const Plan& plan, Tools& tools, Reasons reasons) const {
  CandidateView out;
  const auto refused = [&](Outcome why, const Problem& problem) {
    tools.remember(id, false);
    if (reasons == Reasons::told) out.reason = text_of(problem);
    return out.outcome = why, out;
  };
  if (const Problems problems = plan_problems(plan); !problems.empty()) return refused(Outcome::layout, problems.front());
  if (const Problems gaps = lowering_gaps(plan); !gaps.empty()) return refused(Outcome::unlowered, gaps.front());
  if (const std::ptrdiff_t axis = idle(id, plan, tools); axis >= 0) {
    if (reasons == Reasons::told) out.reason = idle_text(axis);
    return out.outcome = Outcome::same, out;
  }
  if (stack_refuses(plan)) {
    const bool told = reasons == Reasons::told;
    return refused(Outcome::stack, told ? stack_problems(plan, plan.stack.name, plan.stack.as_of).front() : Problem{});
  }
  tools.remember(id, true);
  return std::nullopt;
}

CandidateView Judge::candidate(CandidateId id, Reasons reasons) const {
  CandidateView out;
  Lease tools(*this);
  const Plan& plan = tools->plans.of(id);
  sim::ClosedForm& form = tools->form;
  if (std::optional<CandidateView> refused = refusal(id, plan, *tools, reasons)) return *refused;
  if (memory_floor(plan, floor_of(id, plan, *tools), topology_->device()) > room_) {
    out.reason = kTooLarge;
    return out.outcome = Outcome::too_large, out;
  }
  const sim::Estimate e = form.quick(plan);
  if (shards_over_one(id, plan, e, *tools)) {
    out.reason = "parallel.zero_stage changes nothing here: one rank has all states";
    return out.outcome = Outcome::same, out;
  }
  if (e.outside == sim::Outside::layout && surely_large(plan, form)) return out.outcome = Outcome::too_large, out;
  out.outside = e.outside;
  out.estimate_ps = e.step_time.ps();
  out.memory = e.memory.count();
  if (large(out.memory, kMemoryError)) return out.outcome = Outcome::too_large, out;
  out.outcome = e.outside == sim::Outside::layout ? Outcome::simulated : Outcome::estimated;
  const bool holds = e.outside == sim::Outside::nothing;
  out.rough = !disturbed_ && (!holds || large(out.memory, -kMemoryError));
  // Outside the closed form, a step takes at least as long as with links and host to itself.
  if (out.rough && (holds || e.least))
    out.floor_ps = static_cast<std::int64_t>(static_cast<double>(out.estimate_ps) * (1 - kTimeError));
  return out;
}

CandidateView Judge::refine(CandidateId id) const {
  CandidateView out;
  Lease tools(*this);
  const Plan& plan = tools->plans.of(id);
  sim::ClosedForm& form = tools->form;
  const sim::Estimate e = form.quick(plan);
  out.memory = e.memory.count();
  if (e.outside == sim::Outside::layout || large(out.memory, -kMemoryError)) {  // else it surely fits
    out.memory = form.memory_alive(plan).count();
    if (large(out.memory, kReadMemoryError)) return out.outcome = Outcome::too_large, out;
  }
  out.outside = sim::Outside::nothing;
  out.estimate_ps = (e.outside == sim::Outside::nothing ? e.step_time : form.short_time(plan)).ps();
  return out;
}

Simulated Judge::simulate(CandidateId id) const {
  Simulated out = simulate(space_.plan(id));
  return out.id = id, out;
}

Simulated Judge::simulate(const Plan& plan) const {
  const TaskGraph graph = lower(plan);
  // A rank needs at least its live tensors. So a candidate that cannot fit is often found before its time and its allocator are
  // simulated.
  std::int64_t live = 0;
  for (const Program& program : graph.programs) live = std::max(live, program.memory.live_peak_bytes.count());
  live += topology_->device().runtime_memory.count();
  if (live > room_) return {.needed = live};
  sim::SimulateOptions options;
  options.fits = !skipped_.any_memory;
  if (options.fits) {
    const Mesh mesh = make_mesh(plan);
    if (!sim::fits_memory(plan, {graph, mesh, *topology_, *cost_})) return {.needed = live};
  }
  options.seeds_at_once = 1;
  options.every_breakdown = false;
  const Prediction p = sim::simulate(plan, graph, *topology_, options);
  return {0,      p.step_time.ps(), p.range.low_s,    p.range.high_s, p.roles[neediest_role(p)].needed_bytes.count(),
          skipped_.any_memory || p.fits, true,             p.tokens_per_s,   p.mfu, sim::host_share(p), p.range.wider};
}

bool Judge::is_bound() const { return sim::is_bound(*topology_); }

std::string Judge::host_note(const Simulated& s) const {
  return tandem::host_note(space_.plan(s.id), s.launches, cost_->comm_fit().nccl.has_value());
}

std::string Judge::fewer_launches(CandidateId id) const {
  return tandem::fewer_launches(space_.plan(id), cost_->comm_fit().nccl.has_value());
}

}  // namespace tandem::search
