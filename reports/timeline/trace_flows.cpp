#include "reports/timeline/trace_flows.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

namespace tandem {

namespace {

/// Anchor times of a lane's transfers by direction: {is a send, stage offset} -> in issue order.
using Transfers = std::map<std::pair<bool, int>, std::vector<Duration>>;

Duration middle(const Span& s) { return Duration::picoseconds((s.started.ps() + s.ended.ps()) / 2); }

Transfers transfers(const Lane& lane, const TaskGraph& graph) {
  Transfers out;
  const Program& program = graph.program(StageId(lane.coords[Axis::pp]));
  for (const Span& s : lane.spans) {
    const Op& op = graph.of(program.instances.at(s.instance)).tasks.at(s.task).op;
    if (const auto* send = std::get_if<Send>(&op)) out[{true, send->stage_offset}].push_back(s.started);
    if (const auto* recv = std::get_if<Recv>(&op)) out[{false, recv->stage_offset}].push_back(middle(s));
  }
  return out;
}

std::size_t neighbour(const std::vector<const Lane*>& lanes, Coords coords, int offset) {
  coords[Axis::pp] += offset;
  std::size_t of_stage = lanes.size();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i]->coords == coords) return i;
    if (lanes[i]->coords[Axis::pp] == coords[Axis::pp]) of_stage = std::min(of_stage, i);
  }
  return of_stage;
}

}  // namespace

std::vector<TraceFlow> flows(const std::vector<const Lane*>& lanes, const TaskGraph& graph) {
  std::vector<Transfers> by_lane;
  for (const Lane* lane : lanes) by_lane.push_back(transfers(*lane, graph));
  std::vector<TraceFlow> out;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    for (const auto& [direction, sent] : by_lane[i]) {
      const auto& [is_send, offset] = direction;
      const std::size_t to = is_send ? neighbour(lanes, lanes[i]->coords, offset) : lanes.size();
      if (to == lanes.size()) continue;
      const std::vector<Duration>& received = by_lane[to][{false, -offset}];
      for (std::size_t k = 0; k < std::min(sent.size(), received.size()); ++k)
        out.push_back({static_cast<std::int64_t>(out.size()), lanes[i]->ranks.front(), lanes[to]->ranks.front(), sent[k],
                       received[k]});
    }
  }
  return out;
}

}  // namespace tandem
