#include "reports/page/plan_report.hpp"

#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/plan/plan.hpp"
#include "reports/page/page_parts.hpp"
#include "reports/page/timeline_boxes.hpp"
#include "reports/prediction/plan_title.hpp"

namespace tandem {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kLanes = 16;  ///< roles that a page shows

ordered_json role_json(const RolePrediction& r, const ParallelSpec& plan) {
  const Bytes runtime = r.memory_bytes[static_cast<std::size_t>(MemoryKind::runtime)];
  return {{"label", ranks_label(r.ranks, r.coords, plan)}, {"ranks", r.ranks.size()},
          {"first_rank", r.ranks.front()},          {"peak_memory_bytes", r.peak_memory_bytes.count()},
          {"needed_bytes", r.needed_bytes.count()},
          {"arena_bytes", r.arena_bytes.count()},   {"memory_bytes", memory_by_kind(r.memory_bytes)},
          {"time_breakdown_s", r.time_breakdown_s}, {"memory_over_time", memory_curve(r.memory_over_time, runtime)}};
}

}  // namespace

std::string plan_report_json(const PlanReport& report) {
  const Prediction& p = report.prediction;
  require(p.timeline != nullptr && p.timeline->lanes.size() == p.roles.size(),
          "a page about a plan needs its timeline");
  const std::vector<std::size_t> chosen = picked_lanes(p.roles.size(), kLanes, {p.critical_role, neediest_role(p)});
  ordered_json whole = ordered_json::parse(to_json(p, report.plan));
  for (const char* key : {"roles", "plan"}) whole.erase(key);
  ordered_json roles = ordered_json::object();
  for (std::size_t i : chosen) roles[std::to_string(i)] = role_json(p.roles[i], report.plan.parallel);
  const ordered_json out = {{"what", "tandem plan report"},
                            {"schema_version", 1},
                            {"name", title(report.plan)},
                            {"stack", stack_text(report.plan)},
                            {"device", report.device},
                            {"device_memory_bytes", report.device_memory.count()},
                            {"prediction", whole},
                            {"roles_in_all", p.roles.size()},
                            {"critical_role", p.critical_role},
                            {"neediest_role", neediest_role(p)},
                            {"roles", roles},
                            {"kinds", memory_kinds()},
                            {"timeline", drawn_timeline(*p.timeline, report.graph, chosen)},
                            {"measured_products", p.measured_products ? to_text(*p.measured_products) : ""},
                            {"unverified", report.unverified},
                            {"plan", ordered_json::parse(to_json(report.plan, -1))}};
  return out.dump();
}

}  // namespace tandem
