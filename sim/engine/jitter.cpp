#include "sim/engine/jitter.hpp"

#include <cmath>
#include <numbers>
#include <string>

#include "models/base/error.hpp"
#include "sim/engine/simulated_step.hpp"

namespace tandem::sim {
namespace {

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// In (0, 1): 53 bits, never 0.
double uniform(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

/// Standard normal (Box and Muller 1958).
double normal(std::uint64_t key) {
  const double radius = std::sqrt(-2 * std::log(uniform(scramble(key)))), angle = 2 * std::numbers::pi * uniform(scramble(~key));
  return radius * std::cos(angle);
}

bool varies(const Op& op) { return !is_communication(op) && !std::holds_alternative<HostCopy>(op); }

InfeasibleError refusal(const std::string& reason, const std::string& remedy) {
  return InfeasibleError(Problem{"", "cluster.perturbation.jitter.relative", "", reason, remedy});
}

RoleDelays delays_of(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role, const Jitter& jitter) {
  const Program& program = graph.program(simulated.roles[role].stage);
  const LaneProgram& lane_program = simulated.lane_program(role);
  const auto& slots = simulated.quotient.slots(role);
  RoleDelays out;
  out.ps.reserve(lane_program.tasks());
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    const auto& tasks = graph.of(program.instances[i]).tasks;
    out.first.push_back(static_cast<std::uint32_t>(out.ps.size()));
    for (std::uint16_t t = 0; t < tasks.size(); ++t) {
      const Slot& slot = slots[simulated.communications.first_slot[lane_program.starts[i].tmpl] + t];
      if (varies(tasks[t].op) && slot.exchange >= 0)
        throw refusal("not implemented: jitter where computations of several ranks slow each other down", "leave it out on this machine");
      const std::uint32_t position = lane_program.starts[i].base + t;
      const double factor = varies(tasks[t].op) ? jitter_factor(jitter, simulated.roles[role].ranks.front(), position) : 1;
      out.ps.push_back(std::llround(static_cast<double>(slot.duration) * (factor - 1)));
    }
  }
  return out;
}

}  // namespace

double jitter_factor(const Jitter& jitter, std::int32_t rank, std::uint32_t position) {
  const double variance = std::log1p(jitter.relative * jitter.relative);
  const std::uint64_t place = static_cast<std::uint64_t>(rank) << 32 | position;
  return std::exp(std::sqrt(variance) * normal(scramble(jitter.seed) ^ place) - variance / 2);
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

std::vector<RoleDelays> jitter_delays(const SimulatedStep& simulated, const TaskGraph& graph, const Jitter& jitter) {
  std::vector<RoleDelays> out;
  for (std::size_t role = 0; role < simulated.roles.size(); ++role) out.push_back(delays_of(simulated, graph, role, jitter));
  return out;
}

}  // namespace tandem::sim
