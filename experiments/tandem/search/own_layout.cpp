#include "experiments/tandem/search/own_layout.hpp"

#include <cmath>

#include "experiments/tandem/search/judge_tools.hpp"
#include "experiments/tandem/search/report_parts.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/resolve.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::search {

namespace {

constexpr double kSame = 0.0005;  ///< a difference that a percentage of one decimal shows as none

/// The first reason for which the plan cannot run, else "".
std::string refusal(const Plan& plan, bool any_stack) {
  if (const Problems problems = plan_problems(plan); !problems.empty()) return text_of(problems.front());
  if (const Problems gaps = lowering_gaps(plan); !gaps.empty()) return text_of(gaps.front());
  if (any_stack || !breaks_stack_rule(plan)) return "";
  return text_of(stack_problems(plan, plan.stack.name, plan.stack.as_of).front());
}

/// The time of row 1 beside that of the plan's own layout.
std::string beside(const Simulated& first, const Simulated& own) {
  const double less = 1 - seconds(first.time_ps) / seconds(own.time_ps);
  if (std::abs(less) < kSame) return "row 1 takes as long";
  return "row 1 takes " + number_text(100 * std::abs(less), 1) + (less > 0 ? " % less" : " % more");
}

std::string fate(const Search& search, const Answer& answer, const PlanDraft& own) {
  const Plan plan = completed(own);
  const std::string layout = degrees(plan) + ", micro-batch " + std::to_string(plan.training.micro_batch_size);
  if (const std::string why = refusal(plan, search.options().any_stack); !why.empty()) return layout + ", cannot run here: " + why;
  const Simulated s = search.judge().simulate(plan);
  if (!s.fits) return layout + ", does not fit: it needs at least " + bytes_text(s.needed);
  return layout + ", takes " + time_text(seconds(s.time_ps)) + " and " + bytes_text(s.needed) + "; " + beside(answer.best.front(), s);
}

}  // namespace

std::string own_layout_text(const Search& search, const Answer& answer) {
  const std::optional<PlanDraft>& own = search.judge().space().question().own;
  if (!own || answer.best.empty() || answer.interrupted) return "";
  return "the plan's own layout, " + fate(search, answer, *own) + "\n";
}

}  // namespace tandem::search
