#include "reports/compare/rank_differences.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace tandem {

namespace {

/// The lane of each rank.
std::map<std::int32_t, std::size_t> lanes_of(const SavedTimeline& t) {
  std::map<std::int32_t, std::size_t> out;
  for (std::size_t l = 0; l < t.lanes.size(); ++l)
    for (const std::int32_t r : t.lanes[l].ranks) out.emplace(r, l);
  return out;
}

/// By lane: how long at least one of its computations runs.
std::vector<Duration> computing(const SavedTimeline& t) {
  std::vector<Duration> out;
  for (const SavedLane& lane : t.lanes) {
    std::vector<std::pair<Duration, Duration>> runs;
    for (const SavedSpan& s : lane.spans)
      if (t.tasks[s.task].stream == "compute") runs.emplace_back(s.started, s.ended);
    std::sort(runs.begin(), runs.end());
    Duration sum, end;
    for (const auto& [from, to] : runs) {
      if (to > end) sum += to - std::max(from, end);
      end = std::max(end, to);
    }
    out.push_back(sum);
  }
  return out;
}

}  // namespace

std::vector<RankDifference> rank_differences(const SavedTimeline& first, const SavedTimeline& second) {
  const std::map<std::int32_t, std::size_t> of_first = lanes_of(first), of_second = lanes_of(second);
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::int32_t>> parts;
  for (const auto& [rank, lane] : of_first)
    if (const auto other = of_second.find(rank); other != of_second.end()) parts[{lane, other->second}].push_back(rank);
  const std::vector<Duration> a = computing(first), b = computing(second);
  std::vector<RankDifference> out;
  for (auto& [lanes, ranks] : parts) out.push_back({std::move(ranks), lanes.first, lanes.second, a[lanes.first], b[lanes.second]});
  const auto weight = [](const RankDifference& d) { return std::abs((d.first - d.second).ps()); };
  std::sort(out.begin(), out.end(), [&](const RankDifference& x, const RankDifference& y) {
    return weight(x) != weight(y) ? weight(x) > weight(y) : x.ranks.front() < y.ranks.front();
  });
  return out;
}

}  // namespace tandem
