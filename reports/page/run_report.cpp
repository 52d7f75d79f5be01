#include "reports/page/run_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "models/plan/mesh.hpp"
#include "reports/compare/judgement.hpp"
#include "reports/compare/rank_differences.hpp"
#include "reports/page/page_parts.hpp"
#include "reports/page/time_shares.hpp"
#include "reports/page/timeline_boxes.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/timeline/memory_over_time.hpp"
#include "reports/timeline/restored_timeline.hpp"

namespace tandem {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLanes = 16;  ///< rows of ranks that a page shows; with two timelines half as many of each

ordered_json shares_json(const TimeShares& shares) {
  ordered_json out = ordered_json::object();
  for (const auto& [what, time] : shares) out[what] = time.seconds();
  return out;
}

ordered_json role_json(const RunSide& side, const SavedLane& saved, const Lane& lane) {
  const std::vector<MemorySample> memory = memory_over_time(lane, side.graph.program(StageId(lane.coords[Axis::pp])));
  const auto peak = std::max_element(memory.begin(), memory.end(),
                                     [](const MemorySample& a, const MemorySample& b) { return total(a) < total(b); });
  return {{"label", ranks_label(lane.ranks, lane.coords, side.plan.parallel)},
          {"ranks", lane.ranks},
          {"first_rank", lane.ranks.front()},
          {"arena_bytes", lane.arena_bytes.count()},
          {"memory_bytes", memory_by_kind(peak == memory.end() ? BytesByKind{} : peak->live)},
          {"time_shares_s", shares_json(time_shares(side.timeline, saved))},
          {"memory_over_time", memory_curve(memory, Bytes())}};
}

const char* performed(const SavedTimeline& t) { return t.performer == Performer::executed ? "measured" : "predicted"; }

ordered_json side_json(const RunSide& side, const std::string& what, const std::vector<std::size_t>& chosen) {
  const Timeline timeline = restored(side.timeline, side.graph, side.file, chosen);
  ordered_json roles = ordered_json::object();
  for (std::size_t i : chosen) roles[std::to_string(i)] = role_json(side, side.timeline.lanes[i], timeline.lanes[i]);
  const auto& history = side.timeline.history;
  return {{"what", what},
          {"performer", performed(side.timeline)},
          {"run", history ? ordered_json::parse(to_json(*history)) : ordered_json(nullptr)},
          {"step_time_s", side.timeline.step_time.seconds()},
          {"cluster", side.plan.cluster.preset},
          {"devices", side.plan.cluster.devices},
          {"roles_in_all", timeline.lanes.size()},
          {"roles", std::move(roles)},
          {"timeline", drawn_timeline(timeline, side.graph, chosen)}};
}

std::size_t heaviest(const SavedTimeline& t) {
  const auto most = std::max_element(t.lanes.begin(), t.lanes.end(),
                                     [](const SavedLane& a, const SavedLane& b) { return a.arena_bytes < b.arena_bytes; });
  return static_cast<std::size_t>(most - t.lanes.begin());
}

void require_lanes(const RunSide& side) {
  if (side.timeline.lanes.empty())
    throw ConfigError(Problem{side.file, "lanes", "[]", "holds no rank's step", "give a whole timeline"});
}

/// The rows of a comparison: ranks that are alike on both sides, by rank. If they are too many, those that differ most and the
/// heaviest remain.
std::vector<RankDifference> shown(std::vector<RankDifference> rows, std::size_t heaviest_lane) {
  constexpr auto kMost = static_cast<std::ptrdiff_t>(kLanes / 2);
  const auto weighs_most = [&](const RankDifference& r) { return r.second_lane == heaviest_lane; };
  const auto heavy = std::find_if(rows.begin(), rows.end(), weighs_most);
  if (heavy != rows.end() && heavy - rows.begin() >= kMost) std::iter_swap(heavy, rows.begin() + kMost - 1);
  if (rows.size() > kLanes / 2) rows.resize(kLanes / 2);
  const auto by_rank = [](const RankDifference& a, const RankDifference& b) { return a.ranks.front() < b.ranks.front(); };
  std::sort(rows.begin(), rows.end(), by_rank);
  return rows;
}

/// One lane of every row, ascending, each once.
std::vector<std::size_t> lanes_of(const std::vector<RankDifference>& rows, std::size_t RankDifference::*lane) {
  std::set<std::size_t> out;
  for (const RankDifference& r : rows) out.insert(r.*lane);
  return {out.begin(), out.end()};
}

/// Each side's ranks are found by the row's first one, because the roles of the sides may differ.
ordered_json rows_json(const std::vector<RankDifference>& rows, const Plan& plan) {
  const Mesh mesh = make_mesh(plan);
  ordered_json out = ordered_json::array();
  for (const RankDifference& r : rows)
    out.push_back({{"rank", r.ranks.front()}, {"label", ranks_label(r.ranks, mesh.coords(Rank(r.ranks.front())), plan.parallel)}});
  return out;
}

ordered_json page(const RunSide& main, ordered_json sides) {
  return {{"what", "tandem run report"},
          {"schema_version", 1},
          {"name", title(main.plan)},
          {"sides", std::move(sides)},
          {"kinds", memory_kinds()},
          {"plan", ordered_json::parse(to_json(main.plan, -1))}};
}

}  // namespace

std::string run_report_json(const RunSide& run) {
  require_lanes(run);
  const auto chosen = picked_lanes(run.timeline.lanes.size(), kLanes, {heaviest(run.timeline)});
  ordered_json out = page(run, ordered_json::array({side_json(run, performed(run.timeline), chosen)}));
  out["comparison"] = ordered_json::parse(to_json(compare(run.timeline, run.timeline), {}));  // with itself: its own sums
  return out.dump();
}

std::string comparison_report_json(const RunSide& first, const RunSide& second, const Comparison& comparison) {
  require_lanes(first);
  require_lanes(second);
  const std::vector<RankDifference> all = rank_differences(first.timeline, second.timeline);
  const std::vector<RankDifference> rows = shown(all, heaviest(second.timeline));
  const bool alike = of_one_performer(comparison);
  ordered_json sides = ordered_json::array();
  sides.push_back(side_json(second, alike ? "baseline" : performed(second.timeline), lanes_of(rows, &RankDifference::second_lane)));
  sides.push_back(side_json(first, alike ? "new" : performed(first.timeline), lanes_of(rows, &RankDifference::first_lane)));
  ordered_json out = page(second, std::move(sides));
  out["rows"] = rows_json(rows, second.plan);
  out["rows_in_all"] = all.size();
  out["comparison"] = ordered_json::parse(to_json(comparison, {}));
  return out.dump();
}

}  // namespace tandem
