#include "reports/trace/trace_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "reports/prediction/text.hpp"
#include "reports/trace/measured_rank.hpp"
#include "reports/trace/simulated_rank.hpp"

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

void require_distinct(const TraceComparison& c) {
  std::map<std::int64_t, const TracedRank*> seen;
  for (const TracedRank& r : c.ranks) {
    const auto [other, added] = seen.try_emplace(r.rank, &r);
    if (added) continue;
    const std::string rank = std::to_string(r.rank), file = other->second->file;
    if (r.told)
      throw ConfigError(Problem{r.file, "distributedInfo.rank", rank, file + " is of this rank, too", "give one trace of each rank"});
    throw ConfigError(Problem{r.file, "distributedInfo.rank", "", "is missing, and without it a trace counts as rank 0, as " + file + " does",
                              "give one of them, or traces that say their ranks"});
  }
}

template <class Key>
std::set<Key> keys_of(const std::map<Key, WorkSum>& a, const std::map<Key, WorkSum>& b) {
  std::set<Key> out;
  for (const auto* table : {&a, &b})
    for (const auto& [key, sum] : *table) out.insert(key);
  return out;
}

template <class Key>
WorkSum value_of(const std::map<Key, WorkSum>& table, const Key& key) {
  const auto found = table.find(key);
  return found == table.end() ? WorkSum{} : found->second;
}

std::vector<ClassLine> class_lines(const TraceComparison& c) {
  std::vector<ClassLine> out;
  for (const std::string& key : keys_of(c.simulated.classes, c.measured.classes)) {
    ClassLine line{key, value_of(c.simulated.classes, key), value_of(c.measured.classes, key), 0};
    line.share = line.difference_s() / c.measured.step_s;
    out.push_back(std::move(line));
  }
  const auto weight = [](const ClassLine& l) { return std::abs(l.difference_s()); };
  std::stable_sort(out.begin(), out.end(), [&](const ClassLine& a, const ClassLine& b) { return weight(a) > weight(b); });
  return out;
}

std::vector<CollectiveLine> collective_lines(const TraceComparison& c) {
  std::vector<CollectiveLine> out;
  for (const CollectiveKey& key : keys_of(c.simulated.collectives, c.measured.collectives))
    out.push_back({key, value_of(c.simulated.collectives, key), value_of(c.measured.collectives, key)});
  std::stable_sort(out.begin(), out.end(), [](const CollectiveLine& a, const CollectiveLine& b) {
    if (a.key.kind != b.key.kind) return a.key.kind < b.key.kind;
    return a.key.group != b.key.group ? a.key.group < b.key.group : a.key.bytes > b.key.bytes;
  });
  return out;
}

std::vector<std::pair<std::string, WorkSum>> by_time(const std::map<std::string, WorkSum>& table) {
  std::vector<std::pair<std::string, WorkSum>> out(table.begin(), table.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return out;
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
  double unknown = 0;
  for (const auto& [name, sum] : c.unknown) unknown += sum.seconds;
  if (unknown > 0)
    c.notes.push_back(number_text(100 * unknown / c.measured.work.seconds, 1) + " % of the kernels' time has no class; it is listed as unknown");
  if (options.step_time_s && std::abs(c.traced.median_s / *options.step_time_s - 1) > kUsual)
    c.notes.push_back("the traced steps are " + percent_text(c.traced.median_s / *options.step_time_s - 1) + " off --step-time; the classes are of the traced steps");
  for (const std::string& note : collective_notes(c)) c.notes.push_back(note);
}

}  // namespace

TracedRank traced_rank(const SavedTimeline& simulated, const Mesh& mesh, const DeviceTrace& trace, const TraceOptions& options) {
  static const TraceRules rules = TraceRules::load();
  TracedRank out{trace.path, trace.device, rank_of(trace, simulated, mesh, options), true, 0, {}, {}, {}, {}};
  out.told = trace.rank >= 0 || options.rank;
  const SavedLane* lane = lane_of(simulated, out.rank);
  if (!lane) refuse(trace, {"", "rank", std::to_string(out.rank), "the simulated timeline has no lane of this rank", "simulate the plan again"});
  out.stage = lane->coords[Axis::pp];
  out.simulated = simulated_step(simulated, *lane, mesh, rules);
  out.steps = steps_of(trace, options.whole_steps);
  if (out.steps.steps.empty())
    refuse(trace, {"", "ProfilerStep", "", "no step has work of the device", "record whole steps: call the profiler's step() after each"});
  const GroupNames groups(mesh, Rank(static_cast<std::int32_t>(out.rank)), used_groups(simulated, *lane));
  MeasuredRank measured = measured_rank(trace, out.steps, groups, rules);
  out.measured = std::move(measured.typical);
  out.notes = step_notes(trace, out.steps);
  for (TraceStep& s : out.steps.steps) s.events = {};
  return out;
}

TraceComparison compare_ranks(std::vector<TracedRank> ranks, const TraceOptions& options) {
  TraceComparison c;
  c.ranks = std::move(ranks);
  require_distinct(c);
  std::vector<RankStep> predictions, measurements;
  std::vector<double> times;
  for (const TracedRank& rank : c.ranks) {
    predictions.push_back(rank.simulated);
    measurements.push_back(rank.measured);
    for (const TraceStep& s : rank.steps.steps) times.push_back(s.time().seconds() / static_cast<double>(rank.steps.divisor));
    c.notes.insert(c.notes.end(), rank.notes.begin(), rank.notes.end());
  }
  c.simulated = mean_step(predictions);
  c.measured = mean_step(measurements);
  c.traced = spread_of(times);
  set_error(c, options.step_time_s);
  c.classes = class_lines(c);
  c.collectives = collective_lines(c);
  c.unknown = by_time(c.measured.unknown);
  add_notes(c, options);
  return c;
}

}  // namespace tandem
