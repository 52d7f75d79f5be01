#include "reports/page/page_parts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "reports/page/timeline_boxes.hpp"
#include "reports/prediction/text.hpp"

namespace tandem {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kTasks = 30'000;  ///< tasks that are drawn one by one
constexpr std::size_t kSamples = 500;   ///< most samples of a memory curve

/// Keeps the highest of every few samples, so no peak is lost.
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

/// "rank 5", "ranks 0 to 1,023, all alike", or "rank 64, one of 32 alike" if they are not consecutive.
std::string ranks_text(const std::vector<std::int32_t>& ranks) {
  const auto n = static_cast<std::int64_t>(ranks.size());
  if (n == 1) return "rank " + count_text(ranks.front());
  if (ranks.back() - ranks.front() + 1 == n) return "ranks " + count_text(ranks.front()) + " to " + count_text(ranks.back()) + ", all alike";
  return "rank " + count_text(ranks.front()) + ", one of " + count_text(n) + " alike";
}

}  // namespace

std::string ranks_label(const std::vector<std::int32_t>& ranks, const Coords& coords, const ParallelSpec& plan) {
  const std::pair<const char*, std::pair<Axis, std::int64_t>> axes[] = {{"pp", {Axis::pp, plan.pipeline}},
                                                                        {"dp", {Axis::dp, plan.data}},
                                                                        {"cp", {Axis::cp, plan.context}},
                                                                        {"tp", {Axis::tp, plan.tensor}}};
  std::string place;
  for (const auto& [name, axis] : axes)
    if (axis.second > 1)
      place += (place.empty() ? " (" : " ") + std::string(name) + std::to_string(coords[axis.first]);
  return ranks_text(ranks) + place + (place.empty() ? "" : ")");
}

ordered_json drawn_timeline(const Timeline& timeline, const TaskGraph& graph, const std::vector<std::size_t>& chosen) {
  const BoxedTimeline boxed = boxes(timeline, graph, chosen, kTasks);
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
  for (std::size_t p = 0; p < kPhases; ++p) phases.push_back(name(static_cast<Phase>(p)));
  return {{"step_ns", timeline.step_time.ps() / 1000},
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

ordered_json memory_curve(const std::vector<MemorySample>& samples, Bytes runtime) {
  ordered_json out = ordered_json::array();
  for (const MemorySample& s : thinned(samples)) {
    ordered_json row = {s.at.ps() / 1000};
    for (std::size_t k = 0; k < kMemoryKinds; ++k)
      row.push_back(k == static_cast<std::size_t>(MemoryKind::runtime) ? runtime.count() : s.live[k].count());
    out.push_back(std::move(row));
  }
  return out;
}

ordered_json memory_by_kind(const BytesByKind& bytes) {
  ordered_json out = ordered_json::object();
  for (std::size_t k = 0; k < kMemoryKinds; ++k) out[std::string(name(static_cast<MemoryKind>(k)))] = bytes[k].count();
  return out;
}

ordered_json memory_kinds() {
  ordered_json out = ordered_json::array();
  for (std::size_t k = 0; k < kMemoryKinds; ++k) out.push_back(name(static_cast<MemoryKind>(k)));
  return out;
}

}  // namespace tandem
