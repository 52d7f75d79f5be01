#pragma once
// What a stack writes into its checkpoints.

#include <optional>

#include "models/base/dtype.hpp"

namespace tandem {

struct Plan;

/// A stack's habit. By default it writes what ranks hold: weights, wider master weights, optimizer states.
struct StackCheckpoint {
  std::optional<DType> floats;  ///< all floating-point tensors are written in this type
  bool narrow_weights = true;   ///< weights are written also where a wider master copy is
};

/// The habit of the plan's stack at its date. Throws ConfigError for a stack that cannot be read.
StackCheckpoint stack_checkpoint(const Plan& plan);

/// Bytes of all weights and optimizer states of one checkpoint of the plan's model, as its stack writes them, in files of all ranks
/// together. Adapters come with the frozen weights. What is not a parameter, such as states of random generators, is left out.
double checkpoint_bytes(const Plan& plan);

}  // namespace tandem
