#include "sim/result/host_memory_note.hpp"

#include <algorithm>

#include "models/graph/host_activations.hpp"
#include "models/graph/host_arena.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::sim {

std::string host_memory_note(const Setup& setup) {
  std::int64_t most = 0;
  for (const Program& p : setup.graph.programs) {
    const std::int64_t activations = HostActivations(setup.graph, p).bytes().count();
    if (activations > 0) most = std::max(most, activations + HostArena(setup.graph, p).bytes().count());
  }
  if (most == 0) return {};
  return "offloaded tensors take at most " + bytes_text(most) + " of the host's memory for each rank: no preset says how much a host has";
}

}  // namespace tandem::sim
