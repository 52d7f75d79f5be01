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
      host_(simulated.host),
      issues_itself_(simulated.host.synchronous || lane_program_.host_waits) {}

std::int64_t Reader::issued(std::uint32_t instance, std::uint16_t task) const {
  const InstanceRecord& p = record_.at(times_, instance);
  if (p.singly() && issues_itself_) return times_.issued[p.first + step(instance, task).singly];
  const std::uint64_t operations = lane_program_.starts[instance].host + step(instance, task).issued;
  const std::int64_t alone = static_cast<std::int64_t>(operations) * host_.launch.ps();
  if (!p.has_pattern() || !lane_program_.host_waits) return alone;
  return record_.late[p.first][patterns_.of(patterns_[p.pattern].timed).tasks[task].lane] + alone;
}

}  // namespace tandem::sim
