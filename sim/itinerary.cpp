#include "sim/itinerary.hpp"

#include <algorithm>
#include <numeric>

namespace tandem::sim {
namespace {

constexpr std::uint32_t kEnd = UINT32_MAX;

std::size_t lane_of(const Task& task, const LaneOfStream& lanes) {
  return lanes[static_cast<std::size_t>(task.stream)];
}

LaneTemplate lane_template(const Template& tmpl, std::uint32_t first_slot, bool synchronous) {
  const LaneOfStream lanes = lanes_of(synchronous);
  LaneTemplate out;
  out.first_slot = first_slot;
  for (const Task& task : tmpl.tasks)
    for (const std::uint16_t d : task.deps)
      if (const std::size_t from = lane_of(tmpl.tasks[d], lanes); from != lane_of(task, lanes))
        out.deps.push_back({first_slot + d, d, static_cast<std::uint8_t>(from)});
  std::uint32_t issued = 0;
  std::size_t first = 0;  // of a task's, in `deps`
  for (std::size_t i = 0; i < tmpl.tasks.size(); ++i) {
    const Task& task = tmpl.tasks[i];
    const std::size_t lane = lane_of(task, lanes);
    const auto elsewhere = [&](std::uint16_t d) { return lane_of(tmpl.tasks[d], lanes) != lane; };
    const auto count = std::count_if(task.deps.begin(), task.deps.end(), elsewhere);
    const std::span<const LaneDep> deps{out.deps.data() + first, static_cast<std::size_t>(count)};
    first += deps.size();
    issued += task.host_operations;
    const LaneTask lt{deps, first_slot + static_cast<std::uint32_t>(i), issued, static_cast<std::uint16_t>(i), task.host_operations,
                      false};
    out.lanes[lane].push_back(lt);
    if (synchronous && lane != 0) out.lanes[0].push_back({{}, lt.slot, lt.issued, lt.task, lt.host, true});
  }
  return out;
}

/// The lanes that a template's tasks stand on.
std::vector<std::uint8_t> occupied(const Template& tmpl, bool synchronous) {
  std::array<bool, kLanes> on{};
  for (const Task& task : tmpl.tasks) on[lane_of(task, lanes_of(synchronous))] = true;
  if (synchronous) on[0] = !tmpl.tasks.empty();
  std::vector<std::uint8_t> lanes;
  for (std::uint8_t lane = 0; lane < kLanes; ++lane)
    if (on[lane]) lanes.push_back(lane);
  return lanes;
}

struct EdgeEnds {
  const Task *from, *to;
};

EdgeEnds ends_of(const TaskGraph& graph, const Program& program, const Edge& edge) {
  const auto task = [&](std::uint32_t instance, std::uint16_t t) {
    require(instance < program.instances.size(), "an edge names no instance of its program");
    const Template& tmpl = graph.of(program.instances[instance]);
    require(t < tmpl.tasks.size(), "an edge names no task of its instance");
    return &tmpl.tasks[t];
  };
  return {task(edge.from_instance, edge.from_task), task(edge.to_instance, edge.to_task)};
}

}  // namespace

LaneOfStream lanes_of(bool synchronous) {
  LaneOfStream lanes{0, 1, 2, 3, 4, 5};
  if (synchronous) lanes[static_cast<std::size_t>(Stream::tensor)] = 0;
  return lanes;
}

std::vector<LaneTemplate> make_lane_templates(const TaskGraph& graph, const Catalogue& catalogue, bool synchronous) {
  std::vector<LaneTemplate> out;
  for (std::size_t t = 0; t < graph.templates.size(); ++t)
    out.push_back(lane_template(graph.templates[t], catalogue.first_slot[t], synchronous));
  return out;
}

Itinerary make_itinerary(const TaskGraph& graph, const Program& program, bool synchronous) {
  std::vector<std::vector<std::uint8_t>> on;
  std::vector<std::uint64_t> host;  // operations of a template
  for (const Template& t : graph.templates) {
    on.push_back(occupied(t, synchronous));
    host.push_back(std::accumulate(t.tasks.begin(), t.tasks.end(), std::uint64_t{0},
                                   [](std::uint64_t sum, const Task& task) { return sum + task.host_operations; }));
  }
  Itinerary out;
  out.base.reserve(program.instances.size() + 1);
  out.tmpl.reserve(program.instances.size());
  out.host.reserve(program.instances.size());
  std::uint32_t position = 0;
  std::uint64_t issued = 0;
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    const std::size_t t = program.instances[i].tmpl.index();
    out.base.push_back(position);
    out.tmpl.push_back(static_cast<std::uint32_t>(t));
    out.host.push_back(issued);
    issued += host[t];
    position += static_cast<std::uint32_t>(graph.templates[t].tasks.size());
    for (const std::uint8_t lane : on[t]) out.lanes[lane].instances.push_back(i);
  }
  out.base.push_back(position);

  const LaneOfStream lanes = lanes_of(synchronous);
  for (const Edge& edge : program.edges) {
    const EdgeEnds ends = ends_of(graph, program, edge);
    const std::size_t from_lane = lane_of(*ends.from, lanes);
    const LaneEdge le{out.base[edge.to_instance] + edge.to_task, edge.from_instance, edge.from_task,
                      static_cast<std::uint8_t>(from_lane), graph.of(program.instances[edge.from_instance]).host_waits};
    const std::uint32_t from = out.base[edge.from_instance] + edge.from_task;
    const std::size_t lane = lane_of(*ends.to, lanes);
    out.host_waits |= le.host_waits;
    if (lane != from_lane || from >= le.to) out.lanes[lane].edges.push_back(le);
  }
  for (LaneProgram& lane : out.lanes) {
    const auto earlier = [](const LaneEdge& a, const LaneEdge& b) { return a.to < b.to; };
    if (!std::is_sorted(lane.edges.begin(), lane.edges.end(), earlier))
      std::stable_sort(lane.edges.begin(), lane.edges.end(), earlier);
    lane.edges.push_back({kEnd, 0, 0, 0, false});
  }
  return out;
}

Place place_of(const Itinerary& itinerary, std::uint32_t position) {
  const auto after = std::upper_bound(itinerary.base.begin(), itinerary.base.end() - 1, position);
  const auto instance = static_cast<std::uint32_t>(after - itinerary.base.begin() - 1);
  return {instance, static_cast<std::uint16_t>(position - itinerary.base[instance])};
}

}  // namespace tandem::sim
