#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/compare/compare_words.hpp"
#include "reports/compare/judgement.hpp"

namespace tandem {

namespace {

using nlohmann::json;

/// JSON has no infinity: an error relative to nothing is null.
json number(double error) { return std::isfinite(error) ? json(error) : json(nullptr); }

json number(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

json verdict(Verdict v) { return v == Verdict::not_asked ? json(nullptr) : json(name(v)); }

json object(const CompareLine& line, const CompareWords& w) {
  return {{"what", line.what},
          {"tasks", line.tasks},
          {w.first + "_s", line.simulated.seconds()},
          {w.second + "_s", line.executed.seconds()},
          {w.difference, number(line.error)},
          {"share_of_step", number(line.share)}};
}

json objects(const std::vector<CompareLine>& lines, const CompareWords& w) {
  json out = json::array();
  for (const CompareLine& line : lines) out.push_back(object(line, w));
  return out;
}

json steps(const StepTimes& t) {
  return {{"steps", t.steps}, {"median_s", t.median_s}, {"low_s", t.low_s}, {"high_s", t.high_s}};
}

json typical(const Comparison& c, const Judgement& j, const CompareWords& w) {
  return {{w.first, steps(c.typical.first)},
          {w.second, steps(c.typical.second)},
          {w.difference, number(c.typical.error)},
          {w.difference + "_low", number(c.typical.low)},
          {w.difference + "_high", number(c.typical.high)},
          {"tolerance", number(j.tolerances.step_time)},
          {"verdict", verdict(j.step_time)}};
}

json differences(const Comparison& c, const CompareWords& w) {
  json out = json::array();
  for (const PlanDifference& d : c.differences) out.push_back({{"field", d.field}, {w.first, d.first}, {w.second, d.second}});
  return out;
}

json cancelling(const std::optional<Cancelling>& c) {
  if (!c) return nullptr;
  return {{"over", c->over}, {"under", c->under}, {"over_share_of_step", c->over_share}, {"under_share_of_step", c->under_share}};
}

}  // namespace

std::string to_json(const Comparison& c, const Judgement& j) {
  const CompareWords w = words(c);
  const json out = {{"schema_version", 1},
                    {"step", object(c.step, w)},
                    {"step_times", typical(c, j, w)},
                    {"waiting", object(c.waiting, w)},
                    {"kinds", objects(c.kinds, w)},
                    {"stages", objects(c.stages, w)},
                    {"ranks", objects(c.ranks, w)},
                    {"collectives", objects(c.collectives, w)},
                    {"operations", objects(c.operations, w)},
                    {"tasks", {{"joined", c.joined}, {"only_" + w.first, c.only_simulated}, {"only_" + w.second, c.only_executed},
                               {"only_" + w.first + "_s", c.only_simulated_time.seconds()},
                               {"only_" + w.second + "_s", c.only_executed_time.seconds()},
                               {"joined_by", c.by_rank ? "rank" : "name"}, {"verdict", verdict(j.tasks)}}},
                    {"memory",
                     {{w.first + "_peak_bytes", c.simulated_peak_bytes},
                      {w.second + "_peak_bytes", c.executed_peak_bytes},
                      {w.difference, number(c.memory_error)},
                      {"tolerance", number(j.tolerances.memory)},
                      {"verdict", verdict(j.memory)}}},
                    {"differences", differences(c, w)},
                    {"cancelling", cancelling(c.cancelling)},
                    {"notes", c.notes},
                    {"verdict", verdict(j.verdict)}};
  return out.dump(2) + "\n";
}

}  // namespace tandem
