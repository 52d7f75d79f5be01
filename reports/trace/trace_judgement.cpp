#include "reports/prediction/text.hpp"
#include "reports/trace/trace_comparison.hpp"

namespace tandem {

Verdict judge_step(const TraceComparison& c, std::optional<double> tolerance) {
  return tolerance ? judged(c.low, c.high, *tolerance, false) : Verdict::not_asked;
}

std::string reason_of(const TraceComparison& c, Verdict verdict, double tolerance) {
  if (verdict != Verdict::outside && verdict != Verdict::undecided) return "";
  const std::string spread = c.low == c.high ? "" : " (" + percent_text(c.low) + " to " + percent_text(c.high) + " by the spread of the steps)";
  return "error of the step time " + percent_text(c.error) + spread + (verdict == Verdict::outside ? " is outside +-" : " may or may not be outside +-") +
         number_text(100 * tolerance, 1) + " %";
}

}  // namespace tandem
