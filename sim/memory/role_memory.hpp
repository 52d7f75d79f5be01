#pragma once
// What a rank's step takes of its device, and whether that fits.

#include <optional>
#include <vector>

#include "models/plan/stack_facts.hpp"
#include "reports/prediction/prediction.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Memory of the roles of one simulated step.
class RoleMemory {
 public:
  /// References are kept.
  RoleMemory(const Plan& plan, const Setup& setup, const SimulatedStep& simulated);

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

  Bytes needed(const Program& program, Bytes runtime) const;

  const Setup& setup_;
  const SimulatedStep& simulated_;
  Bytes libraries_;
  bool caches_;  ///< whether the plan's framework has PyTorch's allocator, and the device is CUDA's
  std::vector<Communicators> of_stack_;
  std::vector<Stage> stages_;
};

}  // namespace tandem::sim
