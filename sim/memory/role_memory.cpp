#include "sim/memory/role_memory.hpp"

#include <algorithm>
#include <utility>

#include "sim/memory/nccl_buffers.hpp"
#include "sim/memory/reserved_memory.hpp"
#include "sim/memory/workspaces.hpp"
#include "sim/network/communications.hpp"

namespace tandem::sim {

namespace {

/// If the arena fills less than this share of the device's room, no allocator is simulated: that takes longer than the rest of a
/// small simulation. Of 1,297 published plans, all whose allocator runs short have an arena larger than the room (2026-11-23).
constexpr double kNear = 0.875;

Bytes room_beside(const Setup& setup, Bytes runtime) {
  return Bytes(setup.topology.device().usable_memory.count() / setup.topology.ranks_per_device()) - runtime;
}

}  // namespace

RoleMemory::RoleMemory(const Plan& plan, const Setup& setup, const SimulatedStep& simulated, bool fits)
    : plan_(plan),
      setup_(setup),
      simulated_(simulated),
      fits_(fits),
      libraries_(library_memory(plan, setup.topology.device())),
      of_stack_(plan.stack.facts.communicators),
      stages_(setup.graph.programs.size()) {}

bool uses_segments(const Plan& plan, const Setup& setup) {
  return setup.cost.comm_fit().nccl && plan.stack.facts.caching_allocator;
}

bool near_the_end(const Plan& plan, const Setup& setup, Bytes arena, Bytes runtime) {
  if (!uses_segments(plan, setup)) return false;
  return static_cast<double>(arena.count()) > kNear * static_cast<double>(room_beside(setup, runtime).count());
}

bool one_arena(const Plan& plan, const Device& device) { return device.synchronous || plan.stack.facts.arena; }

namespace {

/// Bytes that a program needs if its allocator does not run short.
Bytes least_memory(const Plan& plan, const Device& device, const Program& program) {
  return one_arena(plan, device) ? program.memory.arena_bytes : program.memory.live_peak_bytes;
}

}  // namespace

bool fits_memory(const Plan& plan, const Setup& setup) {
  const Device& device = setup.topology.device();
  const Communications communications = list_communications(setup.graph);
  std::vector<std::pair<const Program*, Bytes>> tight;  // and the bytes it has room for
  for (std::size_t s = 0; s < setup.graph.programs.size(); ++s) {
    const Program& program = setup.graph.programs[s];
    Coords first = setup.mesh.coords(Rank(0));
    first[Axis::pp] = static_cast<std::int32_t>(s);
    const Bytes runtime = device.runtime_memory + library_memory(plan, device) +
                          kernel_scratch(plan, setup.cost.comm_fit(), setup.graph, program) +
                          communicator_buffers(setup, communications, setup.mesh.rank(first), plan.stack.facts.communicators);
    const Bytes room = room_beside(setup, runtime);
    if (least_memory(plan, device, program) > room) return false;
    const bool simulated = !one_arena(plan, device) && near_the_end(plan, setup, program.memory.arena_bytes, runtime);
    if (simulated) tight.emplace_back(&program, room);
  }
  return std::all_of(tight.begin(), tight.end(), [&](const auto& t) { return runs_in(setup.graph, *t.first, t.second); });
}

/// PyTorch's allocator returns empty segments before it fails (c10/cuda/CUDACachingAllocator.cpp, release_cached_blocks, which
/// waits for the device first), but it cannot return holes beside tensors. Nothing is known of other allocators on devices, so the
/// live peak decides.
Bytes needed_memory(const Plan& plan, const Setup& setup, const Program& program, Bytes runtime) {
  const MemoryPlan& memory = program.memory;
  if (one_arena(plan, setup.topology.device())) return memory.arena_bytes;
  if (!near_the_end(plan, setup, memory.arena_bytes, runtime)) return memory.live_peak_bytes;
  return needed_bytes(setup.graph, program, room_beside(setup, runtime));
}

RolePrediction RoleMemory::of(const Role& role) {
  Stage& stage = stages_[role.stage.index()];
  const Program& program = setup_.graph.program(role.stage);
  const MemoryPlan& memory = program.memory;
  const Device& device = setup_.topology.device();
  if (!stage.communicators)
    stage.communicators = communicator_buffers(setup_, simulated_.communications, Rank(role.ranks.front()), of_stack_);
  if (!stage.scratch) stage.scratch = kernel_scratch(plan_, setup_.cost.comm_fit(), setup_.graph, program);
  const Bytes runtime = device.runtime_memory + libraries_ + *stage.scratch + *stage.communicators;
  if (!stage.needed) stage.needed = fits_ ? least_memory(plan_, device, program) : needed_memory(plan_, setup_, program, runtime);
  RolePrediction out;
  out.arena_bytes = memory.arena_bytes;
  out.live_peak_bytes = memory.live_peak_bytes;
  out.cached_bytes = memory.cached_bytes;
  out.peak_memory_bytes = memory.arena_bytes + runtime;
  out.needed_bytes = *stage.needed + runtime;
  out.memory_bytes = memory.live_at_peak;
  out.memory_bytes[static_cast<std::size_t>(MemoryKind::runtime)] += runtime;
  return out;
}

bool RoleMemory::fits(const RolePrediction& role) const {
  return role.needed_bytes.count() * setup_.topology.ranks_per_device() <= setup_.topology.device().usable_memory.count();
}

}  // namespace tandem::sim
