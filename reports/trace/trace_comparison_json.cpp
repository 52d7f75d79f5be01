#include <nlohmann/json.hpp>

#include "reports/trace/trace_comparison.hpp"

namespace tandem {

namespace {

using nlohmann::json;

std::string evidence(const TraceSteps& steps) {
  switch (steps.evidence) {
    case StepEvidence::host_annotations: return "host annotations";
    case StepEvidence::device_annotations: return "device annotations";
    case StepEvidence::whole_trace: return "whole trace";
  }
  return "";
}

json pair(double simulated, double measured) { return {{"simulated_s", simulated}, {"measured_s", measured}}; }

json rank(const TracedRank& r) {
  json names = json::array();
  const auto divisor = static_cast<double>(r.steps.divisor);
  for (const TraceStep& s : r.steps.steps) names.push_back({{"name", s.name}, {"step_time_s", s.time().seconds() / divisor}});
  return {{"file", r.file}, {"rank", r.rank}, {"stage", r.stage}, {"device", r.device}, {"steps_by", evidence(r.steps)}, {"steps", names},
          {"simulated_s", r.simulated.step_s}, {"measured_s", r.measured.step_s}, {"idle_s", r.measured.idle_s}, {"exposed_s", r.measured.exposed_s}};
}

json line(const ClassLine& l) {
  return {{"class", l.cls}, {"tasks", l.simulated.count}, {"kernels", l.measured.count}, {"simulated_s", l.simulated.seconds},
          {"measured_s", l.measured.seconds}, {"difference_s", l.difference_s()}, {"share_of_step", l.share}};
}

json mean(const WorkSum& s) { return s.count > 0 ? json(s.seconds / s.count) : json(nullptr); }

json line(const CollectiveLine& l) {
  const auto known = [](std::int64_t value) { return value > 0 ? json(value) : json(nullptr); };
  return {{"kind", l.key.kind}, {"group", l.key.group}, {"ranks", known(l.key.group_size)}, {"bytes", known(l.key.bytes)},
          {"simulated_calls", l.simulated.count}, {"measured_calls", l.measured.count},
          {"simulated_mean_s", mean(l.simulated)}, {"measured_mean_s", mean(l.measured)}};
}

template <class Line>
json list(const std::vector<Line>& lines) {
  json out = json::array();
  for (const Line& l : lines) out.push_back(line(l));
  return out;
}

json step(const TraceComparison& c) {
  json out = pair(c.simulated.step_s, c.measured_step_s);
  out.update({{"error", c.error}, {"error_low", c.low}, {"error_high", c.high}, {"traced_s", c.traced.median_s},
              {"traced_low_s", c.traced.low_s}, {"traced_high_s", c.traced.high_s}, {"traced_steps", c.traced.steps}});
  return out;
}

}  // namespace

std::string to_json(const TraceComparison& c, Verdict verdict, std::optional<double> tolerance) {
  json ranks = json::array(), unknown = json::array();
  for (const TracedRank& r : c.ranks) ranks.push_back(rank(r));
  for (const auto& [kernel, sum] : c.unknown) unknown.push_back({{"kernel", kernel}, {"calls", sum.count}, {"measured_s", sum.seconds}});
  const json out = {{"schema_version", 1},
                    {"traces", ranks},
                    {"step", step(c)},
                    {"device", {{"computing", pair(c.simulated.computing_s, c.measured.computing_s)},
                                {"communicating", pair(c.simulated.communicating_s, c.measured.communicating_s)},
                                {"exposed_communication", pair(c.simulated.exposed_s, c.measured.exposed_s)},
                                {"idle", pair(c.simulated.idle_s, c.measured.idle_s)}}},
                    {"classes", list(c.classes)},
                    {"collectives", list(c.collectives)},
                    {"unknown", unknown},
                    {"notes", c.notes},
                    {"tolerance", tolerance ? json(*tolerance) : json(nullptr)},
                    {"verdict", verdict == Verdict::not_asked ? json(nullptr) : json(name(verdict))}};
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tandem
