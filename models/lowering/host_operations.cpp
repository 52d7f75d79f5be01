#include "models/lowering/host_operations.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "models/base/error.hpp"

namespace tandem::lowering {

void count_host_operations(TaskGraph& graph, const HostOperations& of_stack) {
  std::vector<std::int64_t> parameters(graph.templates.size());
  for (const Program& p : graph.programs)
    for (const Instance& i : p.instances) {
      std::int64_t& most = parameters[i.tmpl.index()];
      most = std::max(most, static_cast<std::int64_t>(p.params.size()));
    }
  for (std::size_t t = 0; t < graph.templates.size(); ++t)
    for (Task& task : graph.templates[t].tasks) {
      // A tensor's fill is one call of PyTorch, whatever allocated it.
      const auto* fill = std::get_if<Fill>(&task.op);
      const std::int64_t n = fill != nullptr && fill->nan ? 1 : of_stack.of(task.op, parameters[t]);
      require(n <= std::numeric_limits<decltype(task.host_operations)>::max(), "a task has more host operations than can be kept");
      task.host_operations = static_cast<decltype(task.host_operations)>(n);
    }
}

namespace {

bool is_pass(const Instance& i) {
  return i.phase == Phase::forward || i.phase == Phase::recompute || i.phase == Phase::backward || i.phase == Phase::weight;
}

std::uint32_t host_operations(const Template& t) {
  const auto add = [](std::uint32_t sum, const Task& task) { return sum + task.host_operations; };
  return std::accumulate(t.tasks.begin(), t.tasks.end(), 0u, add);
}

/// Copies of templates for which the host has nothing to do, each made once.
class Silent {
 public:
  explicit Silent(TaskGraph& graph) : graph_(graph), known_(graph.templates.size()) {}

  TemplateId of(TemplateId tmpl) {
    std::optional<TemplateId>& known = known_[tmpl.index()];
    if (!known) known = add(tmpl, 0);
    return *known;
  }
  TemplateId add(TemplateId tmpl, std::uint32_t first) {
    Template own = graph_.templates[tmpl.index()];
    for (Task& task : own.tasks) task.host_operations = 0;
    own.tasks.front().host_operations = first;
    graph_.templates.push_back(std::move(own));
    return TemplateId(static_cast<std::int32_t>(graph_.templates.size() - 1));
  }

 private:
  TaskGraph& graph_;
  std::vector<std::optional<TemplateId>> known_;
};

}  // namespace

void record_updates(TaskGraph& graph) {
  Silent silent(graph);
  for (Program& p : graph.programs) {
    const auto first = std::find_if(p.instances.rbegin(), p.instances.rend(), is_pass).base();
    if (first == p.instances.end()) continue;
    const std::uint32_t all = std::accumulate(first, p.instances.end(), 0u, [&](std::uint32_t sum, const Instance& i) {
      return sum + host_operations(graph.of(i));
    });
    for (auto i = first; i != p.instances.end(); ++i) i->tmpl = i == first ? silent.add(i->tmpl, all) : silent.of(i->tmpl);
  }
}

}  // namespace tandem::lowering
