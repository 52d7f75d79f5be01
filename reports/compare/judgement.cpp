#include "reports/compare/judgement.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "reports/prediction/text.hpp"

namespace tandem {

namespace {

Verdict of_tasks(const Comparison& c) {
  const bool all = c.joined > 0 && c.only_simulated == 0 && c.only_executed == 0;
  return all || !c.differences.empty() ? Verdict::within : Verdict::outside;
}

std::string limit(double tolerance, bool one_performer) {
  return (one_performer ? "+" : "+-") + number_text(tolerance * 100, 1) + " %";
}

std::string range(const TypicalStep& t) {
  if (!t.first.has_spread() && !t.second.has_spread()) return "";
  return " (" + percent_text(t.low) + " to " + percent_text(t.high) + " by the spread of the steps)";
}

void require_spread(const StepTimes& times, const std::string& path) {
  if (times.has_spread()) return;
  throw ConfigError(Problem{path, "run.steps", std::to_string(times.steps), "steps that count are too few to tell a change of the step time from chance",
                            "train at least 4 steps of the same batch: the first one warms up, and three show a spread"});
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::not_asked: return "not asked";
    case Verdict::within: return "within";
    case Verdict::undecided: return "undecided";
    case Verdict::outside: return "outside";
  }
  throw ContractError("unknown verdict");
}

Verdict judged(double low, double high, double tolerance, bool one_performer) {
  if (low > tolerance || (!one_performer && high < -tolerance)) return Verdict::outside;
  return high <= tolerance && (one_performer || low >= -tolerance) ? Verdict::within : Verdict::undecided;
}

Judgement judge(const Comparison& c, const Tolerances& tolerances) {
  Judgement out{tolerances};
  const bool one = of_one_performer(c);
  if (tolerances.step_time) out.step_time = judged(c.typical.low, c.typical.high, *tolerances.step_time, one);
  if (tolerances.memory) out.memory = judged(c.memory_error, c.memory_error, *tolerances.memory, one);
  if (tolerances.step_time || tolerances.memory) out.tasks = of_tasks(c);
  out.verdict = std::max({out.step_time, out.memory, out.tasks});
  return out;
}

std::vector<std::string> reasons(const Comparison& c, const Judgement& j) {
  std::vector<std::string> out;
  const bool one = of_one_performer(c);
  const std::string what = one ? "change of " : "error of ";
  const std::string step = what + "the step time " + percent_text(c.typical.error);
  if (j.step_time == Verdict::outside) out.push_back(step + range(c.typical) + " is outside " + limit(*j.tolerances.step_time, one));
  if (j.step_time == Verdict::undecided)
    out.push_back(step + " may or may not be outside " + limit(*j.tolerances.step_time, one) + range(c.typical) + ": train more steps, on a machine without other work");
  if (j.memory == Verdict::outside)
    out.push_back(what + "peak memory " + percent_text(c.memory_error) + " is outside " + limit(*j.tolerances.memory, one));
  if (j.tasks == Verdict::outside)
    out.push_back(std::to_string(c.only_simulated) + " tasks of the first timeline and " + std::to_string(c.only_executed) +
                  " of the second have no counterpart");
  return out;
}

void require_judgeable(const Comparison& c, const Tolerances& tolerances, const std::string& first_path,
                       const std::string& second_path) {
  if (!tolerances.step_time || !of_one_performer(c) || c.first == Performer::simulated) return;
  require_spread(c.typical.first, first_path);
  require_spread(c.typical.second, second_path);
}

}  // namespace tandem
