#include "models/lowering/task_launches.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "models/base/error.hpp"

namespace tandem::lowering {
namespace {

decltype(Task::host_operations) kept(std::int64_t n) {
  constexpr std::int64_t kMost = std::numeric_limits<decltype(Task::host_operations)>::max();
  require(n >= 0 && n <= kMost, "a task has more host operations than can be kept");
  return static_cast<decltype(Task::host_operations)>(n);
}

/// PyTorch's calls for Muon's matrices, one after the other: eight for momentum, norm, scale and update, and three for each iteration
/// (NVIDIA-NeMo/Emerging-Optimizers: orthogonalized_optimizers/orthogonalized_optimizer.py, muon_utils.py).
std::int64_t calls(const Muon& o) { return o.matrices * (8 + 3 * o.steps); }

/// PyTorch's calls where the experts' last bias is added by single operations: for each expert product and sum, and a join and a cast.
std::int64_t calls(const GroupedBias& o) { return 2 * o.experts + 2; }

/// Backward, for each expert two products, two sums and two casts; the cast of all rows, their join, and the sum of the weights' gradients.
std::int64_t calls(const GroupedBiasGrad& o) { return 6 * o.experts + 3; }

std::int64_t host_operations(const Task& task, const HostOperations& of_stack, std::int64_t parameters) {
  // A tensor's fill is one call of PyTorch, whatever allocated it.
  if (const auto* fill = std::get_if<Fill>(&task.op); fill != nullptr && fill->nan) return 1;
  if (const auto* bias = std::get_if<GroupedBias>(&task.op); bias != nullptr && bias->weighted) return calls(*bias);
  if (const auto* bias = std::get_if<GroupedBiasGrad>(&task.op); bias != nullptr && bias->weighted) return calls(*bias);
  const auto* muon = std::get_if<Muon>(&task.op);
  return muon != nullptr && of_stack.otherwise > 1 ? calls(*muon) : of_stack.of(kind_name(task.op), parameters);
}

}  // namespace

void count_host_operations(TaskGraph& graph, const HostOperations& of_stack) {
  std::vector<std::int64_t> parameters(graph.templates.size());
  for (const Program& p : graph.programs)
    for (const Instance& i : p.instances) {
      std::int64_t& most = parameters[i.tmpl.index()];
      const auto whole = [](const Param& q) { return !q.continues && !q.frozen; };
      most = std::max<std::int64_t>(most, std::count_if(p.params.begin(), p.params.end(), whole));
    }
  for (std::size_t t = 0; t < graph.templates.size(); ++t)
    for (Task& task : graph.templates[t].tasks) task.host_operations = kept(host_operations(task, of_stack, parameters[t]));
}

TemplateId add_launched_at_once(TaskGraph& graph, TemplateId tmpl, std::int64_t operations) {
  Template own = graph.templates[tmpl.index()];
  for (Task& task : own.tasks) task.host_operations = 0;
  own.tasks.front().host_operations = kept(operations);
  graph.templates.push_back(std::move(own));
  return TemplateId(static_cast<std::int32_t>(graph.templates.size() - 1));
}

namespace {

bool is_pass(const Instance& i) {
  return i.phase == Phase::forward || i.phase == Phase::recompute || i.phase == Phase::backward || i.phase == Phase::weight;
}

std::int64_t operations_of(const Template& t) {
  const auto add = [](std::int64_t sum, const Task& task) { return sum + task.host_operations; };
  return std::accumulate(t.tasks.begin(), t.tasks.end(), std::int64_t{0}, add);
}

}  // namespace

void record_updates(TaskGraph& graph) {
  std::map<TemplateId, TemplateId> silent;  // copies for which the host has nothing to do
  for (Program& p : graph.programs) {
    const auto first = std::find_if(p.instances.rbegin(), p.instances.rend(), is_pass).base();
    if (first == p.instances.end()) continue;
    const std::int64_t all = std::accumulate(first, p.instances.end(), std::int64_t{0}, [&](std::int64_t sum, const Instance& i) {
      return sum + operations_of(graph.of(i));
    });
    first->tmpl = add_launched_at_once(graph, first->tmpl, all);
    for (auto i = first + 1; i != p.instances.end(); ++i) {
      if (!silent.contains(i->tmpl)) silent.emplace(i->tmpl, add_launched_at_once(graph, i->tmpl, 0));
      i->tmpl = silent.at(i->tmpl);
    }
  }
}

}  // namespace tandem::lowering
