#include "sim/engine/repeated_steps.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "models/base/error.hpp"

namespace tandem::sim {
namespace {

using ByStream = std::array<std::optional<Place>, kStreams>;

/// Number of a step's instances without the last one, which validates the update.
std::uint32_t instances_of(const Program& one) {
  require(!one.instances.empty() && one.instances.back().phase == Phase::optimizer, "a step that does not end with its validation");
  return static_cast<std::uint32_t>(one.instances.size()) - 1;
}

/// The first or the last task of a step on each stream.
ByStream outermost(const TaskGraph& graph, const Program& one, bool last) {
  ByStream out;
  for (std::uint32_t i = 0; i < instances_of(one); ++i) {
    const auto& tasks = graph.of(one.instances[i]).tasks;
    for (std::uint16_t t = 0; t < tasks.size(); ++t) {
      auto& known = out[static_cast<std::size_t>(tasks[t].stream)];
      if (last || !known) known = Place{i, t};
    }
  }
  return out;
}

/// Edges into a step, ascending: its own, and those from the step before.
std::vector<Edge> edges_of_step(const TaskGraph& graph, const Program& one) {
  const std::uint32_t n = instances_of(one);
  std::vector<Edge> edges;
  for (const Edge& e : one.edges)
    if (e.to_instance < n) edges.push_back({e.from_instance + n, e.to_instance + n, e.from_task, e.to_task, e.kind});
  const ByStream begins = outermost(graph, one, false), ends = outermost(graph, one, true);
  for (const auto& from : ends)
    for (const auto& to : begins)
      if (from && to) edges.push_back({from->instance, to->instance + n, from->task, to->task, EdgeKind::order});
  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.to_instance != b.to_instance ? a.to_instance < b.to_instance : a.to_task < b.to_task;
  });
  return edges;
}

Program repeat(const TaskGraph& graph, const Program& one, std::int64_t steps) {
  const std::uint32_t n = instances_of(one);
  const std::vector<Edge> edges = edges_of_step(graph, one);
  Program out;
  out.stage = one.stage;
  for (std::uint32_t step = 0; step < steps; ++step) {
    out.instances.insert(out.instances.end(), one.instances.begin(), one.instances.begin() + n);
    for (const Edge& e : edges)  // the first step has none from a step before
      if (step > 0 || e.from_instance >= n)
        out.edges.push_back({e.from_instance + step * n - n, e.to_instance + step * n - n, e.from_task, e.to_task, e.kind});
  }
  return out;
}

}  // namespace

TaskGraph repeated_steps(const TaskGraph& graph, std::int64_t steps) {
  TaskGraph out;
  out.templates = graph.templates;
  for (const Program& p : graph.programs) out.programs.push_back(repeat(graph, p, steps));
  return out;
}

std::vector<Place> last_tasks(const TaskGraph& graph, const Program& one, std::int64_t step) {
  std::vector<Place> out;
  for (const auto& last : outermost(graph, one, true))
    if (last) out.push_back({last->instance + static_cast<std::uint32_t>(step) * instances_of(one), last->task});
  return out;
}

}  // namespace tandem::sim
