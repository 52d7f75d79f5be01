#include "reports/prediction/text.hpp"
#include "reports/trace/trace_comparison.hpp"

namespace tandem {

Verdict judge_step(const TraceComparison& c, std::optional<double> tolerance) {
  return tolerance ? judged(c.low, c.high, *tolerance, c.of_two_runs) : Verdict::not_asked;
}

std::string reason_of(const TraceComparison& c, Verdict verdict, double tolerance) {
  if (verdict != Verdict::outside && verdict != Verdict::undecided) return "";
  const std::string spread = c.low == c.high ? "" : " (" + percent_text(c.low) + " to " + percent_text(c.high) + " by the spread of the steps)";
  const std::string limit = (c.of_two_runs ? "+" : "+-") + number_text(100 * tolerance, 1) + " %";
  return (c.of_two_runs ? "change" : "error") + std::string(" of the step time ") + percent_text(c.error) + spread +
         (verdict == Verdict::outside ? " is outside " : " may or may not be outside ") + limit;
}

}  // namespace tandem
