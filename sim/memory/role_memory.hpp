#pragma once
// Device memory of a rank's step, and whether it fits.

#include <optional>
#include <vector>

#include "models/plan/stack_facts.hpp"
#include "reports/prediction/prediction.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Whether a rank allocates all tensors as one arena: on a host, and if the stack says so.
bool one_arena(const Plan& plan, const Device& device);
/// Bytes that a stage's program needs beside `runtime`: the arena if one_arena(), the need of the simulated allocator if
/// near_the_end(), else the live peak.
Bytes needed_memory(const Plan& plan, const Setup& setup, const Program& program, Bytes runtime);
/// Whether tensors have to fit the segments of PyTorch's allocator for CUDA. Other devices' allocators are not simulated.
bool uses_segments(const Plan& plan, const Setup& setup);
/// Whether `arena` fills more than 7/8 of the memory beside `runtime`, and uses_segments(). If so, the
/// allocator is simulated.
bool near_the_end(const Plan& plan, const Setup& setup, Bytes arena, Bytes runtime);

/// Whether every stage's rank fits its device by needed_memory(). It is faster, because it does not find out how much is missing.
bool fits_memory(const Plan& plan, const Setup& setup);

/// Memory of the roles of one simulated step.
class RoleMemory {
 public:
  /// Keeps the references. `fits`: fits_memory() returned true, so no allocator is simulated.
  RoleMemory(const Plan& plan, const Setup& setup, const SimulatedStep& simulated, bool fits = false);

  /// Returns a prediction of `role` with only its memory filled in.
  RolePrediction of(const Role& role);
  /// Whether a device has room for all ranks of such a role that share it.
  bool fits(const RolePrediction& role) const;

 private:
  /// Cached results of a stage.
  struct Stage {
    std::optional<Bytes> communicators;  ///< buffers of its communicators
    std::optional<Bytes> scratch;        ///< kernel_scratch()
    std::optional<Bytes> needed;         ///< bytes needed beside the runtime
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
