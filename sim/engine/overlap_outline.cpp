#include "sim/engine/overlap_outline.hpp"

#include <array>

namespace tandem::sim {
namespace {

/// The collective of `op` if it slows overlapping computations down, else null. Sends need few compute units. The cost of a chunked
/// collective is in its exposed time (CommFit::chunked_exposed).
const Collective* costs_company(const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  return collective != nullptr && !collective->chunked ? collective : nullptr;
}

bool computes(const Task& task) { return task.stream == Stream::compute && !is_communication(task.op); }

/// What the order of a template's tasks implies, whatever their durations.
class Order {
 public:
  Order(const std::vector<Task>& tasks, const LaneOfStream& lanes) : tasks_(tasks) {
    std::array<std::int32_t, kStreams> last;
    last.fill(-1);
    for (const Task& task : tasks) {
      const std::size_t lane = lanes[static_cast<std::size_t>(task.stream)];
      on_compute_.push_back(lane == lanes[static_cast<std::size_t>(Stream::compute)]);
      before_.push_back(last[lane]);
      last[lane] = static_cast<std::int32_t>(before_.size() - 1);
    }
  }

  bool takes_turns(std::size_t collective) const {
    if (on_compute_[collective]) return true;
    const std::size_t next = first_behind(collective);
    return next < tasks_.size() && before_[next] >= 0 && waits_for(collective, static_cast<std::size_t>(before_[next]));
  }

 private:
  /// The first task on the compute lane that waits for `task`; the number of tasks if none does.
  std::size_t first_behind(std::size_t task) const {
    std::vector<bool> behind(tasks_.size(), false);
    behind[task] = true;
    for (std::size_t t = task + 1; t < tasks_.size(); ++t) {
      bool waits = before_[t] >= 0 && behind[static_cast<std::size_t>(before_[t])];
      for (const std::uint16_t d : tasks_[t].deps) waits = waits || behind[d];
      if (waits && on_compute_[t]) return t;
      behind[t] = waits;
    }
    return tasks_.size();
  }
  bool waits_for(std::size_t task, std::size_t other) const {
    std::vector<bool> awaited(task + 1, false);
    awaited[task] = true;
    for (std::size_t t = task; t > other; --t) {
      if (!awaited[t]) continue;
      if (before_[t] >= 0) awaited[static_cast<std::size_t>(before_[t])] = true;
      for (const std::uint16_t d : tasks_[t].deps) awaited[d] = true;
    }
    return other < task && awaited[other];
  }

  const std::vector<Task>& tasks_;
  std::vector<std::int32_t> before_;  ///< by task: the one before it on its lane, or -1
  std::vector<bool> on_compute_;      ///< by task: it is on the lane of computations
};

OverlapOutline outline(const std::vector<Task>& tasks, const LaneOfStream& lanes) {
  OverlapOutline out;
  out.tasks = tasks.size();
  const Order order(tasks, lanes);
  for (std::uint16_t t = 0; t < tasks.size(); ++t) {
    if (computes(tasks[t])) out.computations.push_back(t);
    const Collective* const collective = costs_company(tasks[t].op);
    if (collective != nullptr && !order.takes_turns(t)) out.collectives.push_back({collective, t});
  }
  return out;
}

}  // namespace

std::vector<OverlapOutline> overlap_outlines(const TaskGraph& graph, const LaneOfStream& lanes) {
  std::vector<OverlapOutline> out;
  out.reserve(graph.templates.size());
  for (const Template& tmpl : graph.templates) out.push_back(outline(tmpl.tasks, lanes));
  return out;
}

}  // namespace tandem::sim
