#include "reports/trace/trace_comparison.hpp"

#include <cmath>
#include <map>
#include <utility>

#include "models/base/error.hpp"
#include "reports/prediction/text.hpp"
#include "reports/trace/measured_rank.hpp"
#include "reports/trace/simulated_rank.hpp"
#include "reports/trace/trace_lines.hpp"

namespace tandem {

namespace {

constexpr double kUsual = 0.05;  ///< largest difference of a traced step from the user's step time, as a share, without a note

[[noreturn]] void refuse(const DeviceTrace& trace, const Problem& why) {
  throw ConfigError(Problem{trace.path, why.field, why.value, why.reason, why.remedy});
}

/// How a trace's steps were found, where that needs saying.
std::vector<std::string> step_notes(const DeviceTrace& trace, const TraceSteps& steps) {
  std::vector<std::string> out;
  std::int64_t updates = 0;
  for (const HostRange& r : trace.ranges) updates += trace.names[r.name].starts_with("Optimizer.step#");
  if (steps.evidence == StepEvidence::whole_trace)
    out.push_back("there is no ProfilerStep, so the whole trace is " + (steps.divisor == 1 ? "one step" : std::to_string(steps.divisor) + " equal steps") +
                  (updates > 0 ? "; it has " + std::to_string(updates) + " calls of Optimizer.step" : "") + " (--trace-steps)");
  if (steps.evidence == StepEvidence::device_annotations) out.emplace_back("the host was not recorded; steps are taken from the device's annotations");
  if (!steps.warm_up.empty()) out.push_back(steps.warm_up + " is left out: the first step is more than 5 % longer than all later ones");
  if (steps.incomplete > 0) out.push_back("steps without work of the device are left out: " + std::to_string(steps.incomplete));
  if (trace.other_devices > 0) out.push_back("events of other devices are left out: " + std::to_string(trace.other_devices));
  for (std::string& note : out) note = trace.path + ": " + note;
  return out;
}

/// The rank of a trace, which must be one of the plan.
std::int64_t rank_of(const DeviceTrace& trace, const SavedTimeline& simulated, const Mesh& mesh, const TraceOptions& options) {
  const auto refuse_size = [&](const char* field, std::int64_t value) {
    refuse(trace, {"", field, std::to_string(value), "the simulated plan has " + std::to_string(mesh.world_size()) + " ranks",
                   "simulate the plan that ran"});
  };
  if (trace.world_size > 0 && trace.world_size != mesh.world_size()) refuse_size("distributedInfo.world_size", trace.world_size);
  if (options.rank && trace.rank >= 0 && *options.rank != trace.rank)
    refuse(trace, {"", "distributedInfo.rank", std::to_string(trace.rank), "is not --rank " + std::to_string(*options.rank), "leave --rank out"});
  const std::int64_t rank = options.rank ? *options.rank : trace.rank >= 0 ? trace.rank : simulated.lanes.size() == 1 ? 0 : -1;
  if (rank < 0)
    refuse(trace, {"", "distributedInfo.rank", "", "is missing, and the simulated ranks differ",
                   "compare it alone and say its rank with --rank; of several traces each must say its own"});
  if (rank >= mesh.world_size()) refuse_size(options.rank ? "--rank" : "distributedInfo.rank", rank);
  return rank;
}

void require_distinct(const std::vector<TracedRank>& ranks) {
  std::map<std::int64_t, const TracedRank*> seen;
  for (const TracedRank& r : ranks) {
    const auto [other, added] = seen.try_emplace(r.rank, &r);
    if (added) continue;
    const std::string rank = std::to_string(r.rank), file = other->second->file;
    if (r.told)
      throw ConfigError(Problem{r.file, "distributedInfo.rank", rank, file + " is of this rank, too", "give one trace of each rank"});
    throw ConfigError(Problem{r.file, "distributedInfo.rank", "", "is missing, and without it a trace counts as rank 0, as " + file + " does",
                              "give one of them, or traces that say their ranks"});
  }
}

/// Sets the measured step and the error, from the user's step time or from the spread of the traced steps.
void set_error(TraceComparison& c, const std::optional<double>& told) {
  c.measured_step_s = told ? *told : c.traced.median_s;
  const auto error = [&](double measured) { return (c.simulated.step_s - measured) / measured; };
  c.error = error(c.measured_step_s);
  c.low = told ? c.error : error(c.traced.high_s);
  c.high = told ? c.error : error(c.traced.low_s);
}

void add_notes(TraceComparison& c, const TraceOptions& options) {
  if (options.step_time_s && std::abs(c.traced.median_s / *options.step_time_s - 1) > kUsual)
    c.notes.push_back("the traced steps are " + percent_text(c.traced.median_s / *options.step_time_s - 1) + " off --step-time; the classes are of the traced steps");
  for (const std::string& note : collective_notes(c)) c.notes.push_back(note);
}

/// Takes the steps and notes of a run's traces and returns their times.
StepTimes take_steps(const std::vector<TracedRank>& ranks, std::vector<std::string>& notes) {
  std::vector<double> times;
  for (const TracedRank& rank : ranks) {
    for (const TraceStep& s : rank.steps.steps) times.push_back(s.time().seconds() / static_cast<double>(rank.steps.divisor));
    notes.insert(notes.end(), rank.notes.begin(), rank.notes.end());
  }
  return spread_of(times);
}

RankStep mean_over(const std::vector<TracedRank>& ranks, RankStep TracedRank::*figures) {
  std::vector<RankStep> steps;
  for (const TracedRank& rank : ranks) steps.push_back(rank.*figures);
  return mean_step(steps);
}

/// What the host's and the device's annotations say about a trace's steps. Throws ConfigError if no step is complete.
TracedRank with_steps(const DeviceTrace& trace, const TraceOptions& options) {
  TracedRank out;
  out.file = trace.path;
  out.device = trace.device;
  out.world_size = trace.world_size;
  out.steps = steps_of(trace, options.whole_steps);
  if (out.steps.steps.empty())
    refuse(trace, {"", "ProfilerStep", "", "no step has work of the device", "record whole steps: call the profiler's step() after each"});
  out.notes = step_notes(trace, out.steps);
  return out;
}

/// Sets the figures of a trace's steps, and forgets which events each step has.
void measure(TracedRank& rank, const DeviceTrace& trace, const GroupNames& groups, const TraceRules& rules) {
  rank.measured = measured_rank(trace, rank.steps, groups, rules).typical;
  for (TraceStep& s : rank.steps.steps) s.events = {};
}

const TraceRules& shipped_rules() {
  static const TraceRules rules = TraceRules::load();
  return rules;
}

}  // namespace

TracedRank traced_rank(const SavedTimeline& simulated, const Mesh& mesh, const DeviceTrace& trace, const TraceOptions& options) {
  const std::int64_t rank = rank_of(trace, simulated, mesh, options);
  const SavedLane* lane = lane_of(simulated, rank);
  if (!lane) refuse(trace, {"", "rank", std::to_string(rank), "the simulated timeline has no lane of this rank", "simulate the plan again"});
  TracedRank out = with_steps(trace, options);
  out.rank = rank;
  out.told = trace.rank >= 0 || options.rank;
  out.stage = lane->coords[Axis::pp];
  out.simulated = simulated_step(simulated, *lane, mesh, shipped_rules());
  measure(out, trace, GroupNames(mesh, Rank(static_cast<std::int32_t>(rank)), used_groups(simulated, *lane)), shipped_rules());
  return out;
}

TracedRank traced_alone(const DeviceTrace& trace, const TraceOptions& options) {
  TracedRank out = with_steps(trace, options);
  out.rank = trace.rank >= 0 ? trace.rank : 0;
  out.told = trace.rank >= 0;
  measure(out, trace, GroupNames(), shipped_rules());
  return out;
}

TraceComparison compare_ranks(std::vector<TracedRank> ranks, const TraceOptions& options) {
  TraceComparison c;
  c.ranks = std::move(ranks);
  require_distinct(c.ranks);
  c.traced = take_steps(c.ranks, c.notes);
  c.simulated = mean_over(c.ranks, &TracedRank::simulated);
  c.measured = mean_over(c.ranks, &TracedRank::measured);
  set_error(c, options.step_time_s);
  set_lines(c);
  add_notes(c, options);
  return c;
}

TraceComparison compare_runs(std::vector<TracedRank> newer, std::vector<TracedRank> baseline) {
  TraceComparison c;
  c.of_two_runs = true;
  c.newer = std::move(newer);
  c.ranks = std::move(baseline);
  for (const std::vector<TracedRank>* run : {&c.newer, &c.ranks}) require_distinct(*run);
  c.newly_traced = take_steps(c.newer, c.notes);
  c.traced = take_steps(c.ranks, c.notes);
  c.simulated = mean_over(c.newer, &TracedRank::measured);
  c.measured = mean_over(c.ranks, &TracedRank::measured);
  c.measured_step_s = c.traced.median_s;
  const auto change = [](double from, double to) { return (to - from) / from; };
  c.error = change(c.traced.median_s, c.newly_traced.median_s);
  c.low = change(c.traced.high_s, c.newly_traced.low_s);
  c.high = change(c.traced.low_s, c.newly_traced.high_s);
  set_lines(c);
  for (const std::string& note : run_notes(c)) c.notes.push_back(note);
  return c;
}

}  // namespace tandem
