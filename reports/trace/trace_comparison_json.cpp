#include <nlohmann/json.hpp>

#include "reports/trace/trace_comparison.hpp"
#include "reports/trace/trace_words.hpp"

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

/// A key of one side: "new_calls".
std::string key(const char* side, const char* what) { return std::string(side) + "_" + what; }

class Json {
 public:
  explicit Json(const TraceComparison& c) : c_(c), w_(words(c)) {}

  json whole(Verdict verdict, std::optional<double> tolerance) const {
    json out = {{"schema_version", 1}, {"step", step()}, {"device", device()}, {"classes", named("class", c_.classes)}, {"phases", named("phase", c_.phases)},
                {"collectives", list(c_.collectives)}, {"unknown", unknown()}, {"notes", c_.notes},
                {"tolerance", tolerance ? json(*tolerance) : json(nullptr)},
                {"verdict", verdict == Verdict::not_asked ? json(nullptr) : json(name(verdict))}};
    if (c_.of_two_runs) out.update({{"new_traces", ranks(c_.newer)}, {"baseline_traces", ranks(c_.ranks)}, {"kernels", list(c_.kernels)}});
    else out["traces"] = ranks(c_.ranks);
    return out;
  }

 private:
  json pair(double first, double second) const { return {{key(w_.first, "s"), first}, {key(w_.second, "s"), second}}; }

  json rank(const TracedRank& r) const {
    json names = json::array();
    const auto divisor = static_cast<double>(r.steps.divisor);
    for (const TraceStep& s : r.steps.steps) names.push_back({{"name", s.name}, {"step_time_s", s.time().seconds() / divisor}});
    json out = {{"file", r.file}, {"rank", r.rank}, {"device", r.device}, {"steps_by", evidence(r.steps)}, {"steps", names},
                {"measured_s", r.measured.step_s}, {"idle_s", r.measured.idle_s}, {"exposed_s", r.measured.exposed_s}};
    if (!c_.of_two_runs) out.update({{"stage", r.stage}, {"simulated_s", r.simulated.step_s}});
    return out;
  }

  json ranks(const std::vector<TracedRank>& run) const {
    json out = json::array();
    for (const TracedRank& r : run) out.push_back(rank(r));
    return out;
  }

  json counts(double first, double second) const {
    if (!c_.of_two_runs) return {{"tasks", first}, {"kernels", second}};
    return {{key(w_.first, "calls"), first}, {key(w_.second, "calls"), second}};
  }

  json sums(const WorkSum& first, const WorkSum& second, double share) const {
    json out = counts(first.count, second.count);
    out.update(pair(first.seconds, second.seconds));
    out.update({{"difference_s", first.seconds - second.seconds}, {"share_of_step", share}});
    return out;
  }

  /// `what`: "class" or "phase".
  json named(const char* what, const std::vector<ClassLine>& lines) const {
    json out = json::array();
    for (const ClassLine& l : lines) {
      out.push_back(sums(l.simulated, l.measured, l.share));
      out.back()[what] = l.cls;
    }
    return out;
  }

  json line(const KernelLine& l) const {
    json out = sums(l.newer, l.baseline, l.share);
    out.update({{"class", l.key.cls}, {"phase", l.key.phase}, {"kernel", l.key.name}});
    return out;
  }

  json line(const CollectiveLine& l) const {
    const auto known = [](std::int64_t value) { return value > 0 ? json(value) : json(nullptr); };
    const auto mean = [](const WorkSum& s) { return s.count > 0 ? json(s.seconds / s.count) : json(nullptr); };
    return {{"kind", l.key.kind}, {"group", l.key.group}, {"ranks", known(l.key.group_size)}, {"bytes", known(l.key.bytes)},
            {key(w_.first, "calls"), l.simulated.count}, {key(w_.second, "calls"), l.measured.count},
            {key(w_.first, "mean_s"), mean(l.simulated)}, {key(w_.second, "mean_s"), mean(l.measured)}};
  }

  template <class Line>
  json list(const std::vector<Line>& lines) const {
    json out = json::array();
    for (const Line& l : lines) out.push_back(line(l));
    return out;
  }

  json step() const {
    json out = pair(first_step_s(c_), c_.measured_step_s);
    const std::string difference = w_.difference;
    out.update({{difference, c_.error}, {difference + "_low", c_.low}, {difference + "_high", c_.high}});
    const auto traced = [&](const std::string& side, const StepTimes& t) {
      out.update({{side + "_low_s", t.low_s}, {side + "_high_s", t.high_s}, {side + "_steps", t.steps}});
    };
    if (c_.of_two_runs) traced("new", c_.newly_traced);
    traced(c_.of_two_runs ? "baseline" : "traced", c_.traced);
    if (!c_.of_two_runs) out["traced_s"] = c_.traced.median_s;
    return out;
  }

  json device() const {
    const RankStep &a = c_.simulated, &b = c_.measured;
    return {{"computing", pair(a.computing_s, b.computing_s)},
            {"communicating", pair(a.communicating_s, b.communicating_s)},
            {"exposed_communication", pair(a.exposed_s, b.exposed_s)},
            {"idle", pair(a.idle_s, b.idle_s)}};
  }

  json unknown() const {
    json out = json::array();
    for (const auto& [kernel, sum] : c_.unknown) out.push_back({{"kernel", kernel}, {"calls", sum.count}, {key(w_.second, "s"), sum.seconds}});
    return out;
  }

  const TraceComparison& c_;
  const TraceWords w_;
};

}  // namespace

std::string to_json(const TraceComparison& c, Verdict verdict, std::optional<double> tolerance) {
  return Json(c).whole(verdict, tolerance).dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tandem
