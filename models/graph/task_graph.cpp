#include "models/graph/task_graph.hpp"

#include <iterator>

namespace tandem {

std::string_view name(Stream s) {
  constexpr std::string_view names[] = {"compute", "tensor", "data", "send", "recv", "host"};
  static_assert(std::size(names) == kStreams);
  return names[static_cast<std::size_t>(s)];
}

std::string_view name(Phase p) {
  constexpr std::string_view names[] = {"forward", "recompute", "backward", "reduce", "optimizer", "weight", "gather"};
  static_assert(std::size(names) == kPhases);
  return names[static_cast<std::size_t>(p)];
}

std::int64_t TaskGraph::tasks(StageId s) const {
  std::int64_t n = 0;
  for (const Instance& i : program(s).instances) n += static_cast<std::int64_t>(of(i).tasks.size());
  return n;
}

}  // namespace tandem
