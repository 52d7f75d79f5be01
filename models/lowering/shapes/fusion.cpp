#include "models/lowering/shapes/fusion.hpp"

namespace tandem::lowering {

Fusion fusion_of(const TrainingSpec& training) {
  Fusion f{training.fusion, training.deterministic, false};
  f.attention = training.attention_kernel;
  f.tensors_filled = training.deterministic && training.fill_uninitialized_memory && f.allocates_by_dispatcher;
  return f;
}

DType held_master(const FusionSet& set, const DTypes& types) {
  const bool narrow = types.weights == DType::bf16 && types.gradients == DType::bf16;
  return set.master_remainders && narrow && types.master == DType::fp32 ? DType::bf16 : types.master;
}

}  // namespace tandem::lowering
