#include "experiments/tandem/search/judge.hpp"

#include <algorithm>
#include <optional>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "models/plan/mesh.hpp"
#include "models/planfile/plan_advice.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/resolve.hpp"
#include "sim/memory/role_memory.hpp"
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

/// The tools of one thread, whose caches stay warm.
struct Judge::Tools {
  explicit Tools(const Judge& judge) : form(*judge.topology_, *judge.cost_), plans(judge.space_), twins(judge.space_) {}

  std::optional<std::string> shared_layout_problem(const Judge& judge, CandidateId id);

  sim::ClosedForm form;
  CandidatePlans plans, twins;
  CandidateId twin = -1;              ///< the last candidate that idle() compared with
  bool twin_may_be = false;           ///< whether it is possible
  CandidateId checked = -1;           ///< the last candidate whose layout was checked for others
  std::optional<std::string> layout;  ///< what is wrong with it
  std::unordered_map<CandidateId, const LayerFloor*> floors;  ///< by the first candidate with the same layers
};

/// Holds tools while a thread needs them.
class Judge::Lease {
 public:
  explicit Lease(const Judge& judge) : judge_(judge) {
    const std::lock_guard lock(judge.mutex_);
    if (judge.tools_.empty()) {
      tools_ = std::make_unique<Tools>(judge);
      return;
    }
    tools_ = std::move(judge.tools_.back());
    judge.tools_.pop_back();
  }
  ~Lease() {
    const std::lock_guard lock(judge_.mutex_);
    judge_.tools_.push_back(std::move(tools_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Tools* operator->() { return tools_.get(); }
  Tools& operator*() { return *tools_; }

 private:
  const Judge& judge_;
  std::unique_ptr<Tools> tools_;
};

Judge::Judge(const Space& space, SkippedChecks skipped)
    : space_(space),
      skipped_(skipped),
      disturbed_(space.question().draft.plan.cluster.perturbation.any()),
      topology_(program::topology_of(space.question().draft.plan, "")),
      cost_(sim::make_cost_model(*topology_)),
      room_(skipped.any_memory ? kAnyRoom : topology_->device().usable_memory.count() / topology_->ranks_per_device()),
      floors_(*topology_, *cost_) {
  std::int64_t left = space.groups();
  for (; outer_axes_ < space.axes().size() && left > 1; ++outer_axes_)
    left /= static_cast<std::int64_t>(space.axes()[outer_axes_].values.size());
  for (std::size_t a = outer_axes_; a < space.axes().size(); ++a)
    memory_by_member_ = memory_by_member_ || is_of_sharding(space.axes()[a].field);
}

Judge::~Judge() = default;

bool Judge::is_of_members(const std::string& field) const {
  for (std::size_t a = outer_axes_; a < space_.axes().size(); ++a)
    if (space_.axes()[a].field == field && space_.axes()[a].values.size() > 1) return true;
  return false;
}

/// Why a candidate has the same step as another one, because a field has no effect; else "".
std::string Judge::idle(CandidateId id, const Plan& plan, Tools& tools) const {
  const IdleFields idle(plan);
  CandidateId other = id;
  std::string reason;
  for (std::size_t a = 0; a < space_.axes().size(); ++a) {
    const Axis& axis = space_.axes()[a];
    const CandidateId value = id / space_.stride(a) % static_cast<CandidateId>(axis.values.size());
    if (value == 0 || space_.asked(a) || !idle.has(axis.field)) continue;
    other -= value * space_.stride(a);
    if (reason.empty()) reason = axis.field + " changes nothing here: the step of " + axis.name + " " + axis.values.front().text;
  }
  if (other == id) return "";
  if (tools.twin != other) {
    const Plan& twin = tools.twins.of(other);
    tools.twin_may_be = plan_problems(twin).empty() && lowering_gaps(twin).empty() && refusal_of_stack(twin).empty();
    tools.twin = other;
  }
  return tools.twin_may_be ? reason : "";
}

const LayerFloor& Judge::floor_of(CandidateId id, const Plan& plan, Tools& tools) const {
  const LayerFloor*& known = tools.floors[space_.same_layers(id)];
  if (known == nullptr) known = &floors_.of(plan);
  return *known;
}

/// True if ZeRO shards states over one rank and the step equals that of the axis' first value. Some stacks change types or buckets
/// with ZeRO, so the estimates are compared.
bool Judge::shards_over_one(CandidateId id, const Plan& plan, const sim::Estimate& e, Tools& tools) const {
  const std::ptrdiff_t axis = space_.axis_of("parallel.zero_stage");
  const bool several = shard_group_size(plan) > 1 || (plan.model.moe.num_experts > 0 && expert_shard_group_size(plan) > 1);
  if (axis < 0 || plan.parallel.zero_stage == 0 || several || e.outside == sim::Outside::layout) return false;
  const CandidateId twin = space_.first_of(id, static_cast<std::size_t>(axis));
  if (twin == id) return false;
  const Plan& other = tools.twins.of(twin);
  if (!plan_problems(other).empty() || !refusal_of_stack(other).empty()) return false;
  const sim::Estimate t = tools.form.quick(other);
  return t.outside == e.outside && t.step_time == e.step_time && t.memory == e.memory;
}

std::string Judge::refusal_of_stack(const Plan& plan) const {
  if (skipped_.any_stack) return "";
  const std::vector<Problem> problems = stack_problems(plan, plan.stack.name, plan.stack.as_of);
  return problems.empty() ? "" : text_of(problems.front());
}

/// What is wrong with the layout of a candidate and of those that differ only in the modules that are computed again. Most candidates
/// of that axis are refused by it, without a plan of their own.
std::optional<std::string> Judge::Tools::shared_layout_problem(const Judge& judge, CandidateId id) {
  const auto of_modules = [](std::string_view f) { return f == "training.recompute_modules"; };
  const Space& space = judge.space_;
  const std::ptrdiff_t axis = space.axis_of("training.recompute_modules");
  if (axis < 0 || space.asked(static_cast<std::size_t>(axis))) return std::nullopt;
  const CandidateId shared = space.first_of(id, static_cast<std::size_t>(axis));
  if (checked != shared) {
    checked = shared, layout.reset();
    for (const Problem& p : plan_problems(plans.of(shared)))
      if (!layout && !of_modules(p.field) && !judge.is_of_members(p.field)) layout = text_of(p);
  }
  return layout;
}

GroupView Judge::group(std::int64_t group) const {
  const CandidateId first = group * space_.members();
  GroupView out;
  const auto refused = [&](Outcome why, std::string reason) { return out.outcome = why, out.reason = std::move(reason), out; };
  if (!space_.divides(first)) return refused(Outcome::devices, "tensor x pipeline x context (x data) does not give the number of devices");
  Lease tools(*this);
  if (auto wrong = tools->shared_layout_problem(*this, first)) return refused(Outcome::layout, std::move(*wrong));
  const Plan& plan = tools->plans.of(first);
  const auto others = [&](const Problem& p) { return !is_of_members(p.field); };
  for (const Problem& p : plan_problems(plan))
    if (others(p)) return refused(Outcome::layout, text_of(p));
  for (const Problem& p : lowering_gaps(plan))
    if (others(p)) return refused(Outcome::unlowered, text_of(p));
  if (std::string reason = idle(first, plan, *tools); !reason.empty()) return refused(Outcome::same, std::move(reason));
  const LayerFloor& layer = floor_of(first, plan, *tools);
  out.floor_ps = time_floor(plan, layer);
  for (std::int64_t m = 0; m < space_.members(); ++m) {
    const bool same = m > 0 && !memory_by_member_;
    const auto floor = [&] { return memory_floor(tools->plans.of(first + m), layer, topology_->device()); };
    out.memory_floors.push_back(same ? out.memory_floors.front() : floor());
    const bool large = out.memory_floors.back() > room_;
    out.too_large.push_back(large);
    out.large += large ? 1 : 0;
  }
  return out;
}

std::int64_t Judge::passes_floor(std::int64_t group) const { return passes_of(group * space_.members()); }

std::int64_t Judge::unrepeated_floor(std::int64_t group) const {
  const CandidateId first = group * space_.members(), plain = space_.unrepeated(first);
  if (plain == first) return 0;
  {
    Lease tools(*this);
    if (!plan_problems(tools->plans.of(plain)).empty()) return 0;
  }
  return passes_of(plain);
}

/// A lower bound on a candidate's step, from recurrences over its passes.
std::int64_t Judge::passes_of(CandidateId first) const {
  Lease tools(*this);
  const Plan& plan = tools->plans.of(first);
  if (disturbed_) return 0;
  const LayerFloor& layer = floor_of(first, plan, *tools);
  const Duration passes = tools->form.passes(plan, {layer.module_forward, layer.module_backward});
  return static_cast<std::int64_t>(static_cast<double>(passes.ps()) * (1 - kTimeError));
}

/// True if a plan with ZeRO 2 or 3, offloading or MTP modules cannot fit: the plan without them needs too much, even less most_saved().
bool Judge::surely_large(const Plan& plan, sim::ClosedForm& form) const {
  const OffloadSpec& offload = plan.parallel.offload;
  const bool modules = plan.model.mtp.num_layers > 0;
  if (plan.parallel.zero_stage < 2 && !offload.optimizer && !offload.parameters && !modules) return false;
  Plan plain = plan;
  plain.model.mtp = {};
  if (plain.parallel.zero_stage > 1) plain.parallel.zero_stage = 1, plain.parallel.zero_group = 0;
  plain.parallel.offload = {};
  const sim::Estimate e = form.quick(plain);
  const double least = static_cast<double>(e.memory.count()) * (1 - kMemoryError) - static_cast<double>(most_saved(plan, plain));
  return e.outside != sim::Outside::layout && least > static_cast<double>(room_);
}

bool Judge::large(std::int64_t memory, double error) const {
  return static_cast<double>(memory) * (1 - error) > static_cast<double>(room_);
}

CandidateView Judge::candidate(CandidateId id) const {
  CandidateView out;
  const auto refused = [&](Outcome why, std::string reason) { return out.outcome = why, out.reason = std::move(reason), out; };
  Lease tools(*this);
  const Plan& plan = tools->plans.of(id);
  sim::ClosedForm& form = tools->form;
  if (const Problems problems = plan_problems(plan); !problems.empty()) return refused(Outcome::layout, text_of(problems.front()));
  if (const Problems gaps = lowering_gaps(plan); !gaps.empty()) return refused(Outcome::unlowered, text_of(gaps.front()));
  if (std::string reason = idle(id, plan, *tools); !reason.empty()) return refused(Outcome::same, std::move(reason));
  if (std::string reason = refusal_of_stack(plan); !reason.empty()) return refused(Outcome::stack, std::move(reason));
  const sim::Estimate e = form.quick(plan);
  if (shards_over_one(id, plan, e, *tools)) return refused(Outcome::same, "parallel.zero_stage changes nothing here: one rank has all states");
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
  sim::Estimate e = form.quick(plan);
  out.memory = form.memory_alive(plan).count();
  if (large(out.memory, kReadMemoryError)) return out.outcome = Outcome::too_large, out;
  if (e.outside != sim::Outside::nothing) e = form.estimate(plan, e, sim::MemoryEstimate::live_peak);
  out.outside = e.outside;
  out.estimate_ps = e.step_time.ps();
  return out;
}

Simulated Judge::simulate(CandidateId id) const {
  const Plan plan = space_.plan(id);
  const TaskGraph graph = lower(plan);
  // A rank needs at least its live tensors. So a candidate that cannot fit is often found before its time and its allocator are
  // simulated.
  std::int64_t live = 0;
  for (const Program& program : graph.programs) live = std::max(live, program.memory.live_peak_bytes.count());
  live += topology_->device().runtime_memory.count();
  if (live > room_) return {.id = id, .needed = live};
  sim::SimulateOptions options;
  options.fits = !skipped_.any_memory;
  if (options.fits) {
    const Mesh mesh = make_mesh(plan);
    if (!sim::fits_memory(plan, {graph, mesh, *topology_, *cost_})) return {.id = id, .needed = live};
  }
  options.seeds_at_once = 1;
  options.every_breakdown = false;
  const Prediction p = sim::simulate(plan, graph, *topology_, options);
  return {id,     p.step_time.ps(), p.range.low_s,    p.range.high_s, p.roles[neediest_role(p)].needed_bytes.count(),
          skipped_.any_memory || p.fits, true,             p.tokens_per_s,   p.mfu, sim::host_share(p)};
}

std::string Judge::host_note(const Simulated& s) const {
  return tandem::host_note(space_.plan(s.id), s.launches, cost_->comm_fit().nccl.has_value());
}

std::string Judge::fewer_launches(CandidateId id) const {
  return tandem::fewer_launches(space_.plan(id), cost_->comm_fit().nccl.has_value());
}

std::string Judge::why_wider(CandidateId id) const {
  const PlanTraits traits = sim::traits_on(space_.plan(id), *topology_);
  const std::string& calibration = topology_->device().calibration;
  return sim::log_range(sim::load_error_book(calibration), sim::range_question(*topology_, traits)).wider;
}

}  // namespace tandem::search
