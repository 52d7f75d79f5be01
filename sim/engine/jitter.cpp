#include "sim/engine/jitter.hpp"

#include <cmath>
#include <optional>
#include <string>

#include "models/base/error.hpp"
#include "models/base/threads.hpp"
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

bool varies(const Op& op) { return !is_communication(op) && !std::holds_alternative<HostCopy>(op); }

InfeasibleError refusal(const std::string& reason, const std::string& remedy) {
  return InfeasibleError(Problem{"", "cluster.perturbation.jitter.relative", "", reason, remedy});
}

/// What the roles of one table of slots have in common.
struct Computations {
  std::vector<std::uint32_t> first;  ///< by instance: its first task
  std::vector<double> ps;            ///< by task: of a computation; 0 of what does not vary
};

Computations computations_of(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role) {
  const Program& program = graph.program(simulated.roles[role].stage);
  const LaneProgram& lane_program = simulated.lane_program(role);
  const auto& slots = simulated.quotient.slots(role);
  Computations out;
  out.ps.reserve(lane_program.tasks());
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    const auto& tasks = graph.of(program.instances[i]).tasks;
    out.first.push_back(static_cast<std::uint32_t>(out.ps.size()));
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      const Slot& slot = slots[simulated.communications.first_slot[lane_program.starts[i].tmpl] + t];
      const bool computation = varies(tasks[t].op);
      if (computation && slot.exchange >= 0)
        throw refusal("not implemented: jitter where computations of several ranks slow each other down", "leave it out on this machine");
      out.ps.push_back(computation ? static_cast<double>(slot.duration) : 0);
    }
  }
  return out;
}

/// To the nearest whole number; llround is a call.
std::int64_t rounded(double x) { return static_cast<std::int64_t>(x + std::copysign(0.5, x)); }

void set_delays(const Computations& computations, const JitterFactors& factors, std::int32_t rank, RoleDelays& out) {
  out.first = computations.first;
  out.ps.resize(computations.ps.size());
  for (std::uint32_t position = 0; position < out.ps.size(); ++position) {
    const double ps = computations.ps[position];
    out.ps[position] = ps == 0 ? 0 : rounded(ps * (factors.of(rank, position) - 1));
  }
}

NormalTable log_normal(double relative) {
  const double variance = std::log1p(relative * relative), spread = std::sqrt(variance);
  return NormalTable([&](double z) { return std::exp(spread * z - variance / 2); });
}

}  // namespace

JitterFactors::JitterFactors(const Jitter& jitter) : factors_(log_normal(jitter.relative)), seed_(scramble(jitter.seed)) {}

double JitterFactors::of(std::int32_t rank, std::uint32_t position) const {
  return factors_.of(scramble(seed_ ^ (static_cast<std::uint64_t>(rank) << 32 | position)));
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

void set_jitter(SimulatedStep& simulated, const TaskGraph& graph, const Jitter& jitter, int threads) {
  std::vector<std::optional<Computations>> of_table(simulated.quotient.tables.size());
  for (std::size_t role = 0; role < simulated.roles.size(); ++role)
    if (auto& known = of_table[simulated.quotient.roles[role].table]; !known) known = computations_of(simulated, graph, role);
  const JitterFactors factors(jitter);
  simulated.delays.resize(simulated.roles.size());
  for_each_index(simulated.roles.size(), {.most = threads}, [&](std::size_t role) {
    const Computations& computations = *of_table[simulated.quotient.roles[role].table];
    set_delays(computations, factors, simulated.roles[role].ranks.front(), simulated.delays[role]);
  });
}

}  // namespace tandem::sim
