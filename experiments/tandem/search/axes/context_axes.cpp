#include "experiments/tandem/search/axes/context_axes.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "models/stack/resolve.hpp"

namespace tandem::search {

namespace {

constexpr const char* kMode = "parallel.context_mode";

/// The largest number of context ranks of the axes.
std::int64_t most_context(Plan plan, const std::vector<AxisRequest>& axes) {
  std::int64_t most = 1;
  for (const AxisValue& ranks : values_in(axes, "parallel.context")) ranks.set(plan), most = std::max(most, plan.parallel.context);
  return most;
}

std::set<std::string> gaps(const Plan& plan) {
  std::set<std::string> out;
  for (const Problem& p : lowering_gaps(plan)) out.insert(p.message());
  return out;
}

/// Whether the stack and the lowering run a mode where they run the plan without context ranks.
bool runs(Plan plan, ContextMode mode, std::int64_t ranks) {
  const std::set<std::string> anyway = gaps(plan);
  plan.parallel.context = ranks, plan.parallel.context_mode = mode;
  const std::set<std::string> with = gaps(plan);
  if (!std::includes(anyway.begin(), anyway.end(), with.begin(), with.end())) return false;
  const std::vector<Problem> refused = stack_problems(plan, plan.stack.name, plan.stack.as_of);
  return std::none_of(refused.begin(), refused.end(), [](const Problem& p) { return p.field == kMode; });
}

}  // namespace

std::vector<AxisRequest> context_mode_axes(const PlanDraft& draft, const std::vector<AxisRequest>& axes) {
  const std::int64_t most = most_context(draft.plan, axes);
  if (most == 1) return {};
  Plan plan = completed(draft);
  plan.parallel.context = 1;
  const ContextMode own = plan.parallel.context_mode;
  std::vector<ContextMode> modes;
  for (const ContextMode mode : {own, ContextMode::all_gather, ContextMode::ulysses}) {
    const bool known = std::find(modes.begin(), modes.end(), mode) != modes.end();
    const bool stands_in = mode == ContextMode::all_gather && !modes.empty();  // its bytes are a ring's, beside no computation
    if (!known && !stands_in && runs(plan, mode, most)) modes.push_back(mode);
  }
  if (modes.empty() || modes == std::vector{own}) return {};
  AxisRequest out{kMode, {}};
  for (const ContextMode mode : modes) out.values.push_back('"' + std::string(name(mode)) + '"');
  return {out};
}

std::vector<AxisRequest> context_level_axes(const Plan& draft, const std::vector<AxisRequest>& axes) {
  Plan p = draft;
  std::int64_t most = 1;
  for (const AxisValue& mode : values_in(axes, kMode)) {
    mode.set(p);
    if (p.parallel.context_mode != ContextMode::ulysses) most = std::max(most, most_context(p, axes));
  }
  if (most < 4) return {};  // two levels of two
  AxisRequest out{"parallel.ulysses", {}};
  for (std::int64_t n = 1; n <= most; n *= 2)
    if (p.model.num_attention_heads % n == 0) out.values.push_back(std::to_string(n));
  if (out.values.size() < 2) return {};
  return {out};
}

}  // namespace tandem::search
