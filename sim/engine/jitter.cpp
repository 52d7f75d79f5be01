#include "sim/engine/jitter.hpp"

#include <string>

#include "models/base/error.hpp"
#include "sim/network/quotient.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {
namespace {

bool varies(const Op& op) { return !is_communication(op) && !std::holds_alternative<HostCopy>(op); }

InfeasibleError refusal(const std::string& reason, const std::string& remedy) {
  return InfeasibleError(Problem{"", "cluster.perturbation.jitter.relative", "", reason, remedy});
}

NormalTable log_normal(double relative) {
  const double variance = std::log1p(relative * relative), spread = std::sqrt(variance);
  return NormalTable([&](double z) { return std::exp(spread * z - variance / 2); });
}

}  // namespace

JitterFactors::JitterFactors(const Jitter& jitter) : factors_(log_normal(jitter.relative)), seed_(scramble(jitter.seed)) {}

JitterDelays::JitterDelays(const Jitter& jitter, const TaskGraph& graph, const std::vector<std::uint32_t>& first_slot,
                           const Quotient& quotient)
    : factors_(jitter), varies_(first_slot.back()) {
  for (std::size_t t = 0; t < graph.templates.size(); ++t)
    for (std::size_t task = 0; task < graph.templates[t].tasks.size(); ++task)
      varies_[first_slot[t] + task] = varies(graph.templates[t].tasks[task].op);
  for (const std::vector<Slot>& slots : quotient.tables)
    for (std::size_t slot = 0; slot < slots.size(); ++slot)
      if (varies_[slot] && slots[slot].exchange >= 0)
        throw refusal("not implemented: jitter where computations of several ranks slow each other down", "leave it out on this machine");
}

void require_few_tasks(const Setup& setup) {
  std::int64_t tasks = 0;
  for (const Program& p : setup.graph.programs) tasks += setup.graph.tasks(p.stage);
  tasks *= setup.mesh.world_size() / static_cast<std::int64_t>(setup.graph.programs.size());
  if (tasks <= kMostJitteredTasks) return;
  throw refusal("every rank is its own under jitter, and " + std::to_string(setup.mesh.world_size()) + " ranks have " +
                    std::to_string(tasks) + " tasks a step, more than the " + std::to_string(kMostJitteredTasks) +
                    " that are simulated one by one",
                "lower parallel.data and the batch with it, or leave jitter out");
}

}  // namespace tandem::sim
