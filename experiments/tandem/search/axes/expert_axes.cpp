#include "experiments/tandem/search/axes/expert_axes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/fields/plan_fields.hpp"
#include "models/stack/resolve.hpp"

namespace tandem::search {

namespace {

/// Fields on which it depends whether a stack runs a value.
constexpr const char* kExpert = "parallel.expert";
constexpr const char* kSchedule = "parallel.schedule";
constexpr const char* kRecompute = "training.recompute";

const AxisRequest* axis_named(const std::vector<AxisRequest>& axes, const std::string& field) {
  const auto found = std::find_if(axes.begin(), axes.end(), [&](const AxisRequest& a) { return a.field == field; });
  return found == axes.end() ? nullptr : &*found;
}

/// The plans with each of an axis' values; the plans themselves if there is no such axis.
std::vector<Plan> with_each(const std::vector<Plan>& plans, const AxisRequest* axis) {
  if (axis == nullptr) return plans;
  std::vector<Plan> out;
  for (const AxisValue& value : make_axis(*axis).values)
    for (Plan plan : plans) value.set(plan), out.push_back(std::move(plan));
  return out;
}

/// Plans of the search with as many ranks of experts as it has, for each schedule and recomputation.
std::vector<Plan> probes(const PlanDraft& draft, const std::vector<AxisRequest>& axes) {
  std::vector<Plan> out{completed(draft)};
  if (const AxisRequest* expert = axis_named(axes, kExpert)) out = with_each(out, expert), out = {out.back()};
  return with_each(with_each(out, axis_named(axes, kSchedule)), axis_named(axes, kRecompute));
}

bool runs(const Plan& plan, const std::string& field) {
  const auto of_field = [&](const Problem& p) { return p.field == field; };
  const std::vector<Problem> refused = stack_problems(plan, plan.stack.name, plan.stack.as_of);
  const Problems gaps = lowering_gaps(plan);
  return std::none_of(refused.begin(), refused.end(), of_field) && std::none_of(gaps.begin(), gaps.end(), of_field);
}

/// All values of a flag or of a field with names, as JSON.
std::vector<std::string> every_value(const std::string& field) {
  const nlohmann::json schema = find_field(field)->schema();
  if (!schema.contains("enum")) return {"false", "true"};
  std::vector<std::string> out;
  for (const nlohmann::json& value : schema["enum"]) out.push_back(value.dump());
  return out;
}

/// The axis of a field with the values that one of the plans at least can run; none if that is a single one.
std::vector<AxisRequest> runnable(const std::string& field, const std::vector<Plan>& plans) {
  AxisRequest out{field, {}};
  for (const std::string& value : every_value(field)) {
    const Axis one = make_axis({field, {value}});
    const auto can = [&](Plan plan) { return one.values.front().set(plan), runs(plan, field); };
    if (std::any_of(plans.begin(), plans.end(), can)) out.values.push_back(value);
  }
  return out.values.size() > 1 ? std::vector{out} : std::vector<AxisRequest>{};
}

}  // namespace

std::vector<AxisRequest> expert_axes(const PlanDraft& draft, const std::vector<AxisRequest>& axes) {
  if (draft.plan.model.moe.num_experts == 0) return {};
  const std::vector<Plan> plans = probes(draft, axes);
  std::vector<AxisRequest> out = runnable("parallel.token_dispatcher", plans);
  for (AxisRequest& axis : runnable("parallel.overlap_experts", plans)) out.push_back(std::move(axis));
  return out;
}

}  // namespace tandem::search
