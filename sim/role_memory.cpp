#include "sim/role_memory.hpp"

#include "sim/reserved_memory.hpp"

namespace tandem::sim {
namespace {

/// Of a device, that must be needed before holes are looked for, which costs time: an allocator that gives back what it can and still
/// takes half as much again as what is alive has not been met (a third more is the most, 2026-11-23).
constexpr double kTight = 0.7;

/// Holes decide only where they are sure: what allocators had was predicted to within 6 % for nine of ten published runs, and runs
/// whose tensors would lack 0.5 to 3 % of places here have been (2026-11-23).
constexpr double kSure = 1.06;

}  // namespace

RolePrediction role_memory(const Program& program, Bytes runtime, const Device& device) {
  const MemoryPlan& memory = program.memory;
  RolePrediction role;
  role.arena_bytes = memory.arena_bytes;
  role.live_peak_bytes = memory.live_peak_bytes;
  role.cached_bytes = memory.cached_bytes;
  role.peak_memory_bytes = memory.arena_bytes + runtime;
  role.needed_bytes = device.synchronous ? role.peak_memory_bytes : memory.live_peak_bytes + runtime;
  role.memory_bytes = memory.live_at_peak;
  role.memory_bytes[static_cast<std::size_t>(MemoryKind::runtime)] += runtime;
  return role;
}

DeviceRoom::DeviceRoom(const TaskGraph& graph, const Device& device, std::int64_t ranks_per_device, bool caching)
    : graph_(graph), device_(device), sharing_(ranks_per_device), caching_(caching && !device.synchronous) {}

bool DeviceRoom::fits(const RolePrediction& role, StageId stage) const {
  const Bytes room(device_.usable_memory.count() / sharing_);
  if (role.needed_bytes > room) return false;
  const auto whole = static_cast<double>(room.count());
  if (!caching_ || static_cast<double>(role.needed_bytes.count()) < kTight * whole) return true;
  const Bytes beside = role.peak_memory_bytes - role.arena_bytes;
  return step_fits(graph_, graph_.program(stage), Bytes(static_cast<std::int64_t>(kSure * whole)) - beside);
}

}  // namespace tandem::sim
