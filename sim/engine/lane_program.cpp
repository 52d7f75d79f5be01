#include "sim/engine/lane_program.hpp"

#include <algorithm>

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
  std::size_t first = 0;  // index in `deps` of the current task's first
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

/// The few facts of a template that instances and edges need, in compact form.
struct TemplateSummary {
  std::vector<std::uint8_t> lanes;    ///< lanes that its tasks use, ascending
  std::vector<std::uint8_t> lane_of;  ///< by task
  std::uint64_t host = 0;             ///< host operations
  std::uint32_t first_slot = 0;
  bool host_waits = false;
};

TemplateSummary summary_of(const Template& tmpl, std::uint32_t first_slot, bool synchronous) {
  const LaneOfStream lanes = lanes_of(synchronous);
  TemplateSummary out;
  out.first_slot = first_slot;
  out.host_waits = tmpl.host_waits;
  std::array<bool, kLanes> on{};
  for (const Task& task : tmpl.tasks) {
    out.lane_of.push_back(static_cast<std::uint8_t>(lane_of(task, lanes)));
    out.host += task.host_operations;
    on[out.lane_of.back()] = true;
  }
  if (synchronous) on[0] = !tmpl.tasks.empty();
  for (std::uint8_t lane = 0; lane < kLanes; ++lane)
    if (on[lane]) out.lanes.push_back(lane);
  return out;
}

void add_starts(LaneProgram& out, const std::vector<TemplateSummary>& outlines, const Program& program) {
  out.starts.reserve(program.instances.size() + 1);
  std::vector<std::size_t> count(outlines.size());  // instances of each template
  for (const Instance& i : program.instances) ++count[i.tmpl.index()];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::size_t on = 0;
    for (std::size_t t = 0; t < outlines.size(); ++t)
      if (std::find(outlines[t].lanes.begin(), outlines[t].lanes.end(), lane) != outlines[t].lanes.end()) on += count[t];
    out.lanes[lane].instances.reserve(on);
  }
  InstanceStart next;
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    next.tmpl = static_cast<std::uint32_t>(program.instances[i].tmpl.index());
    out.starts.push_back(next);
    const TemplateSummary& tmpl = outlines[next.tmpl];
    next.host += tmpl.host;
    next.base += static_cast<std::uint32_t>(tmpl.lane_of.size());
    for (const std::uint8_t lane : tmpl.lanes) out.lanes[lane].instances.push_back(i);
  }
  next.tmpl = 0;
  out.starts.push_back(next);
}

using EdgesOfLanes = std::array<std::vector<LaneEdge>, kLanes>;

/// `lanes`: scratch memory, reused for every program.
void add_edges(LaneProgram& out, const std::vector<TemplateSummary>& outlines, const Program& program, EdgesOfLanes& lanes) {
  for (std::vector<LaneEdge>& edges : lanes) edges.clear();
  for (const Edge& edge : program.edges) {
    require(std::max(edge.from_instance, edge.to_instance) < out.instances(), "an edge names no instance of its program");
    const InstanceStart &from = out.starts[edge.from_instance], &to = out.starts[edge.to_instance];
    const TemplateSummary &source = outlines[from.tmpl], &target = outlines[to.tmpl];
    require(edge.from_task < source.lane_of.size() && edge.to_task < target.lane_of.size(),
            "an edge names no task of its instance");
    const LaneEdge le{to.base + edge.to_task, from.base + edge.from_task, edge.from_instance, source.first_slot + edge.from_task,
                      edge.from_task, source.lane_of[edge.from_task], source.host_waits};
    const std::uint8_t lane = target.lane_of[edge.to_task];
    out.host_waits |= le.host_waits;
    if (lane != le.from_lane || le.from >= le.to) lanes[lane].push_back(le);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::vector<LaneEdge>& edges = lanes[lane];
    const auto earlier = [](const LaneEdge& a, const LaneEdge& b) { return a.to < b.to; };
    if (!std::is_sorted(edges.begin(), edges.end(), earlier)) std::stable_sort(edges.begin(), edges.end(), earlier);
    edges.push_back({kEnd, 0, 0, 0, 0, 0, false});
    out.lanes[lane].edges.assign(edges.begin(), edges.end());
  }
}

}  // namespace

LaneOfStream lanes_of(bool synchronous) {
  LaneOfStream lanes{0, 1, 2, 3, 4, 5};
  if (synchronous) lanes[static_cast<std::size_t>(Stream::tensor)] = 0;
  return lanes;
}

std::vector<LaneTemplate> make_lane_templates(const TaskGraph& graph, const Communications& communications, bool synchronous) {
  std::vector<LaneTemplate> out;
  for (std::size_t t = 0; t < graph.templates.size(); ++t)
    out.push_back(lane_template(graph.templates[t], communications.first_slot[t], synchronous));
  return out;
}

std::vector<LaneProgram> make_lane_programs(const TaskGraph& graph, const Communications& communications, bool synchronous) {
  std::vector<TemplateSummary> outlines;
  for (std::size_t t = 0; t < graph.templates.size(); ++t)
    outlines.push_back(summary_of(graph.templates[t], communications.first_slot[t], synchronous));
  std::vector<LaneProgram> out(graph.programs.size());
  EdgesOfLanes lanes;
  for (std::size_t s = 0; s < out.size(); ++s) {
    add_starts(out[s], outlines, graph.programs[s]);
    add_edges(out[s], outlines, graph.programs[s], lanes);
  }
  return out;
}

Place place_of(const LaneProgram& lane_program, std::uint32_t position) {
  const auto after = std::upper_bound(lane_program.starts.begin(), lane_program.starts.end() - 1, position,
                                      [](std::uint32_t p, const InstanceStart& start) { return p < start.base; });
  const auto instance = static_cast<std::uint32_t>(after - lane_program.starts.begin() - 1);
  return {instance, static_cast<std::uint16_t>(position - lane_program.starts[instance].base)};
}

}  // namespace tandem::sim
