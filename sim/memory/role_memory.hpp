#pragma once
// What a rank's step takes of its device, and whether that fits.

#include <optional>
#include <vector>

#include "models/plan/stack_facts.hpp"
#include "reports/prediction/prediction.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Whether a rank's tensors lie in one arena, which must be there: on a host, and where the stack says so.
bool one_arena(const Plan& plan, const Device& device);
/// Bytes that a stage's program needs beside `runtime`: live tensors, an arena of a host or a stack, or what a caching allocator was found to need
/// where tensors are laid out near the device's end.
Bytes needed_memory(const Plan& plan, const Setup& setup, const Program& program, Bytes runtime);
/// Whether `arena` fills more than 7/8 of what `runtime` leaves of a device whose framework uses PyTorch's allocator. If so, that
/// allocator is simulated.
bool near_the_end(const Plan& plan, const Setup& setup, Bytes arena, Bytes runtime);

/// Whether every stage's rank fits its device, as needed_memory() and RoleMemory have it, without how much those need that do not.
bool fits_memory(const Plan& plan, const Setup& setup);

/// Memory of the roles of one simulated step.
class RoleMemory {
 public:
  /// References are kept. `fits`: fits_memory() has said so.
  RoleMemory(const Plan& plan, const Setup& setup, const SimulatedStep& simulated, bool fits = false);

  /// The figures of memory of `role`; nothing else is filled in.
  RolePrediction of(const Role& role);
  /// Whether every device has room for the ranks of such a role that share it.
  bool fits(const RolePrediction& role) const;

 private:
  /// Of a stage, as far as it has been asked for.
  struct Stage {
    std::optional<Bytes> communicators;  ///< their buffers
    std::optional<Bytes> needed;         ///< beside the runtime
  };

  const Plan& plan_;
  const Setup& setup_;
  const SimulatedStep& simulated_;
  const bool fits_;
  Bytes libraries_;
  std::vector<Communicators> of_stack_;
  std::vector<Stage> stages_;
};

}  // namespace tandem::sim
