#include <algorithm>
#include <array>
#include <set>

#include "experiments/tandem/search/judge_tools.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/dependent_defaults.hpp"

namespace tandem::search {

namespace {

constexpr std::size_t kMostLayouts = 65536;  ///< a few hundred bytes each

/// Fields that no check of a layout reads (models/planfile/plan_layout_check).
constexpr std::array<std::string_view, 4> kOfNoLayout{"training.recompute_modules", "training.recompute", "parallel.zero_stage",
                                                      "parallel.overlap_experts"};

/// Defaults that no check of a layout reads.
bool is_of_layout(const std::string& field) {
  constexpr std::array<std::string_view, 6> others{"parallel.overlap_", "parallel.reuse_distance", "parallel.fsdp_copies",
                                                   "parallel.root_unit", "training.dtypes.", "training.recompute_"};
  return std::none_of(others.begin(), others.end(), [&](std::string_view o) { return field.starts_with(o); });
}

}  // namespace

/// Axes that do not change what is wrong with a layout.
void Judge::Tools::find_axes_of_no_layout(const Space& space) {
  const std::string stack = space.plan(0).stack.name;
  for (const std::string_view field : kOfNoLayout) {
    const std::ptrdiff_t axis = space.axis_of(std::string(field));
    const std::set<std::string> others = dependent_defaults(stack, std::string(field));
    const bool none = std::none_of(others.begin(), others.end(), is_of_layout);
    if (axis >= 0 && none) of_no_layout.push_back(static_cast<std::size_t>(axis));
  }
}

/// What is wrong with the layout of a candidate and of all that differ only in such axes. Most candidates are refused by it, without a
/// plan of their own.
std::optional<std::string> Judge::Tools::shared_layout_problem(const Judge& judge, CandidateId id) {
  if (of_no_layout.empty()) return std::nullopt;
  CandidateId shared = id;
  for (const std::size_t axis : of_no_layout) {
    const CandidateId stride = judge.space_.stride(axis);
    shared -= shared / stride % static_cast<CandidateId>(judge.space_.axes()[axis].values.size()) * stride;
  }
  if (const auto known = layouts.find(shared); known != layouts.end()) return known->second;
  if (layouts.size() > kMostLayouts) layouts.clear();
  std::optional<std::string>& layout = layouts[shared];
  for (const Problem& p : plan_problems(plans.of(shared))) {
    const bool of_layout = std::find(kOfNoLayout.begin(), kOfNoLayout.end(), p.field) == kOfNoLayout.end();
    if (!layout && of_layout && !judge.is_of_members(p.field)) layout = text_of(p);
  }
  return layout;
}

bool Judge::is_of_members(const std::string& field) const {
  for (std::size_t a = outer_axes_; a < space_.axes().size(); ++a)
    if (space_.axes()[a].field == field && space_.axes()[a].values.size() > 1) return true;
  return false;
}

const LayerFloor& Judge::floor_of(CandidateId id, const Plan& plan, Tools& tools) const {
  const LayerFloor*& known = tools.floors[space_.same_layers(id)];
  if (known == nullptr) known = &floors_.of(plan);
  return *known;
}

/// A floor that takes no time to find for most candidates: that of the layers without what they compute again.
const LayerFloor& Judge::simple_floor_of(CandidateId id, const Plan& plan, Tools& tools) const {
  if (plan.training.recompute == Recompute::none) return floor_of(id, plan, tools);
  const auto [at, added] = tools.unrepeated.try_emplace(space_.same_unrepeated_layers(id));
  if (added) at->second = floors_.unrepeated(plan);
  return at->second;
}

GroupView Judge::group(std::int64_t group, Reasons reasons) const {
  const CandidateId first = group * space_.members();
  GroupView out;
  const auto refused = [&](Outcome why, std::string reason) { return out.outcome = why, out.reason = std::move(reason), out; };
  if (!space_.divides(first)) return refused(Outcome::devices, "tensor x pipeline x context (x data) does not give the number of devices");
  Lease tools(*this);
  if (auto wrong = tools->shared_layout_problem(*this, first)) return refused(Outcome::layout, std::move(*wrong));
  const Plan& plan = tools->plans.of(first);
  if (alone()) {
    if (auto wrong = refusal(first, plan, *tools, reasons)) return refused(wrong->outcome, std::move(wrong->reason));
    return bounded(first, Bounds::simple, *tools);
  }
  const auto others = [&](const Problem& p) { return !is_of_members(p.field); };
  const auto words = [&](const Problem& p) { return reasons == Reasons::told ? text_of(p) : ""; };
  for (const Problem& p : plan_problems(plan))
    if (others(p)) return refused(Outcome::layout, words(p));
  for (const Problem& p : lowering_gaps(plan))
    if (others(p)) return refused(Outcome::unlowered, words(p));
  if (const std::ptrdiff_t axis = idle(first, plan, *tools); axis >= 0)
    return refused(Outcome::same, reasons == Reasons::told ? idle_text(axis) : "");
  return bounded(first, Bounds::simple, *tools);
}

std::optional<Outcome> Judge::refused_by_numbers(std::int64_t group) const {
  const CandidateId first = group * space_.members();
  if (!space_.divides(first)) return Outcome::devices;
  if (space_.refused_by_numbers(first)) return Outcome::layout;
  return std::nullopt;
}

GroupView Judge::closer(std::int64_t group) const {
  Lease tools(*this);
  return bounded(group * space_.members(), Bounds::own, *tools);
}

GroupView Judge::simple_bounds(std::int64_t group) const {
  Lease tools(*this);
  return bounded(group * space_.members(), Bounds::simple, *tools);
}

/// The bounds of a group's members.
GroupView Judge::bounded(CandidateId first, Bounds bounds, Tools& tools) const {
  GroupView out;
  const Plan& plan = tools.plans.of(first);
  const LayerFloor& layer = bounds == Bounds::own ? floor_of(first, plan, tools) : simple_floor_of(first, plan, tools);
  out.floor_ps = time_floor(plan, layer);
  for (std::int64_t m = 0; m < space_.members(); ++m) {
    const bool same = m > 0 && !memory_by_member_;
    const auto floor = [&] { return memory_floor(tools.plans.of(first + m), layer, topology_->device()); };
    out.memory_floors.push_back(same ? out.memory_floors.front() : floor());
    const bool large = out.memory_floors.back() > room_;
    out.too_large.push_back(large);
    out.large += large ? 1 : 0;
  }
  return out;
}

/// What became of a group's members if none is possible and fits `own` bounds. Those that are too large by `simple` bounds are left out.
std::optional<Counts> Judge::settled(CandidateId first, const GroupView& simple, const GroupView& own) const {
  Lease tools(*this);
  Counts counts{};
  for (std::int64_t m = 0; m < space_.members(); ++m) {
    const auto member = static_cast<std::size_t>(m);
    if (simple.too_large[member]) continue;
    std::optional<CandidateView> refused;
    if (!alone()) refused = refusal(first + m, tools->plans.of(first + m), *tools, Reasons::left_out);
    if (!refused && !own.too_large[member]) return std::nullopt;
    ++at(counts, refused ? refused->outcome : Outcome::too_large);
  }
  return counts;
}

CloserLook Judge::look_closer(std::int64_t group, std::int64_t floor_ps) const {
  const CandidateId first = group * space_.members();
  CloserLook out{floor_ps, false, std::nullopt};
  const auto raised = [&](std::int64_t floor) { return floor > out.floor_ps ? (out.floor_ps = floor, true) : false; };
  if (raised(unrepeated_floor(group))) return out;
  const GroupView simple = simple_bounds(group);
  out.settled = settled(first, simple, simple);
  if (out.settled) return out;
  const GroupView own = closer(group);
  const bool more = raised(own.floor_ps);
  out.settled = settled(first, simple, own);
  if (out.settled || more) return out;
  raised(passes_floor(group));
  out.sharp = true;
  return out;
}

std::int64_t Judge::passes_floor(std::int64_t group) const { return passes_of(group * space_.members()); }

std::int64_t Judge::unrepeated_floor(std::int64_t group) const {
  const CandidateId first = group * space_.members(), plain = space_.unrepeated(first);
  return plain == first ? 0 : passes_of(plain);
}

/// A lower bound on a candidate's step, from recurrences over its passes. Many groups share that of one candidate.
std::int64_t Judge::passes_of(CandidateId first) const {
  return passes_.get(first, [&] { return read_passes(first); });
}

std::int64_t Judge::read_passes(CandidateId first) const {
  if (disturbed_) return 0;
  Lease tools(*this);
  const Plan& plan = tools->plans.of(first);
  const Problems problems = plan_problems(plan);
  if (std::any_of(problems.begin(), problems.end(), [&](const Problem& p) { return !is_of_members(p.field); })) return 0;
  sim::closed_form::ModulePasses modules;
  if (plan.model.mtp.num_layers > 0) {
    const LayerFloor& layer = floor_of(first, plan, *tools);
    modules = {layer.module_forward, layer.module_backward};
  }
  const Duration passes = tools->form.passes(plan, modules);
  return static_cast<std::int64_t>(static_cast<double>(passes.ps()) * (1 - kTimeError));
}

}  // namespace tandem::search
