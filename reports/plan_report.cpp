#include "reports/plan_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/plan.hpp"
#include "reports/plan_title.hpp"
#include "reports/timeline_boxes.hpp"

namespace tandem {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kLanes = 16;      ///< roles that a page shows
constexpr std::size_t kTasks = 30'000;  ///< tasks that are drawn one by one
constexpr std::size_t kSamples = 500;   ///< of a memory curve

/// "rank 64 and 31 alike (pp1 dp0 tp0)"; axes that the plan does not split are left out.
std::string role_label(const RolePrediction& r, const ParallelSpec& plan) {
  const std::size_t n = r.ranks.size();
  const std::pair<const char*, std::pair<Axis, std::int64_t>> axes[] = {{"pp", {Axis::pp, plan.pipeline}},
                                                                        {"dp", {Axis::dp, plan.data}},
                                                                        {"cp", {Axis::cp, plan.context}},
                                                                        {"tp", {Axis::tp, plan.tensor}}};
  std::string place;
  for (const auto& [name, axis] : axes)
    if (axis.second > 1)
      place += (place.empty() ? " (" : " ") + std::string(name) + std::to_string(r.coords[axis.first]);
  return "rank " + std::to_string(r.ranks.front()) + (n > 1 ? " and " + std::to_string(n - 1) + " alike" : "") + place +
         (place.empty() ? "" : ")");
}

ordered_json timeline_json(const PlanReport& report, const std::vector<std::size_t>& chosen) {
  const Timeline& t = *report.prediction.timeline;
  const BoxedTimeline boxed = boxes(t, report.graph, chosen, kTasks);
  ordered_json lanes = ordered_json::array();
  for (const BoxedLane& lane : boxed.lanes) {
    ordered_json streams = ordered_json::array();
    for (const BoxedStream& s : lane.streams) {
      ordered_json rows = ordered_json::array();
      for (const Box& b : s.boxes) rows.push_back({b.from, b.to - b.from, b.phase, b.task, b.layer, b.micro_batch});
      streams.push_back({{"stream", name(s.stream)}, {"boxes", std::move(rows)}});
    }
    lanes.push_back({{"role", lane.lane}, {"streams", std::move(streams)}});
  }
  ordered_json phases = ordered_json::array();
  for (Phase p : {Phase::forward, Phase::recompute, Phase::backward, Phase::reduce, Phase::optimizer, Phase::weight,
                  Phase::gather})
    phases.push_back(name(p));
  return {{"step_ns", t.step_time.ps() / 1000},
          {"phases", phases},
          {"tasks", boxed.tasks},
          {"merged", boxed.merged},
          {"lanes", std::move(lanes)}};
}

Bytes total(const MemorySample& s) {
  Bytes sum;
  for (Bytes b : s.live) sum += b;
  return sum;
}

/// The highest of every few samples: no peak is lost.
std::vector<MemorySample> thinned(const std::vector<MemorySample>& all) {
  if (all.size() <= kSamples) return all;
  std::vector<MemorySample> out = {all.front()};
  const std::size_t bucket = (all.size() + kSamples - 1) / kSamples;
  for (std::size_t i = 1; i < all.size(); i += bucket) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), i + bucket));
    out.push_back(*std::max_element(begin, end,
                                    [](const MemorySample& a, const MemorySample& b) { return total(a) < total(b); }));
  }
  return out;
}

ordered_json memory_json(const RolePrediction& r) {
  ordered_json samples = ordered_json::array();
  const std::int64_t runtime = r.memory_bytes[static_cast<std::size_t>(MemoryKind::runtime)].count();
  for (const MemorySample& s : thinned(r.memory_over_time)) {
    ordered_json row = {s.at.ps() / 1000};
    for (std::size_t k = 0; k < kMemoryKinds; ++k)
      row.push_back(k == static_cast<std::size_t>(MemoryKind::runtime) ? runtime : s.live[k].count());
    samples.push_back(std::move(row));
  }
  return samples;
}

ordered_json role_json(const RolePrediction& r, const ParallelSpec& plan) {
  ordered_json memory = ordered_json::object();
  for (std::size_t k = 0; k < kMemoryKinds; ++k)
    memory[std::string(name(static_cast<MemoryKind>(k)))] = r.memory_bytes[k].count();
  return {{"label", role_label(r, plan)},           {"ranks", r.ranks.size()},
          {"first_rank", r.ranks.front()},          {"peak_memory_bytes", r.peak_memory_bytes.count()},
          {"arena_bytes", r.arena_bytes.count()},   {"memory_bytes", memory},
          {"time_breakdown_s", r.time_breakdown_s}, {"memory_over_time", memory_json(r)}};
}

}  // namespace

std::string plan_report_json(const PlanReport& report) {
  const Prediction& p = report.prediction;
  require(p.timeline != nullptr && p.timeline->lanes.size() == p.roles.size(),
          "a page about a plan needs its timeline");
  const std::vector<std::size_t> chosen = picked_lanes(p.roles.size(), kLanes, {p.critical_role, p.heaviest_role});
  ordered_json whole = ordered_json::parse(to_json(p, report.plan));
  for (const char* key : {"roles", "plan"}) whole.erase(key);
  ordered_json roles = ordered_json::object();
  for (std::size_t i : chosen) roles[std::to_string(i)] = role_json(p.roles[i], report.plan.parallel);
  ordered_json kinds = ordered_json::array();
  for (std::size_t k = 0; k < kMemoryKinds; ++k) kinds.push_back(name(static_cast<MemoryKind>(k)));
  const ordered_json out = {{"what", "tandem plan report"},
                            {"schema_version", 1},
                            {"name", title(report.plan)},
                            {"device", report.device},
                            {"device_memory_bytes", report.device_memory.count()},
                            {"prediction", whole},
                            {"roles_in_all", p.roles.size()},
                            {"critical_role", p.critical_role},
                            {"heaviest_role", p.heaviest_role},
                            {"roles", roles},
                            {"kinds", kinds},
                            {"timeline", timeline_json(report, chosen)},
                            {"measured_products", p.measured_products ? to_text(*p.measured_products) : ""},
                            {"unverified", report.unverified},
                            {"plan", ordered_json::parse(to_json(report.plan, -1))}};
  return out.dump();
}

}  // namespace tandem
