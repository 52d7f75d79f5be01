#include "models/lowering/host_operations.hpp"

#include <algorithm>
#include <limits>

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

}  // namespace tandem::lowering
