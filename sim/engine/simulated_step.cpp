#include "sim/engine/simulated_step.hpp"

namespace tandem::sim {

Reader::Reader(const SimulatedStep& simulated, std::size_t role)
    : record_(simulated.records[role]),
      times_(simulated.times),
      patterns_(simulated.patterns),
      lane_program_(simulated.lane_program(role)),
      slots_(simulated.quotient.slots(role)),
      run_table_(simulated.run_table(role)),
      first_slot_(simulated.communications.first_slot),
      delays_(simulated.delays.empty() ? nullptr : &simulated.delays[role]),
      jitter_(simulated.jitter ? &*simulated.jitter : nullptr),
      rank_(simulated.roles[role].ranks.front()),
      host_(simulated.host) {}

std::int64_t Reader::issued(std::uint32_t instance, std::uint16_t task) const {
  const RunTask& step = this->step(instance, task);
  const InstanceStart& start = lane_program_.starts[instance];
  if (host_.synchronous) return times_.issued[record_.at(times_, instance).first + step.singly];
  return record_.late_at(step.lane, start.base + task) + static_cast<std::int64_t>(start.host + step.issued) * host_.launch.ps();
}

}  // namespace tandem::sim
