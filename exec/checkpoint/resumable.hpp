#pragma once
// Checks whether a plan can resume from a checkpoint.

#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint.hpp"

namespace tandem::exec {

/// Checks that `plan` can continue the checkpoint: same model, precision, optimizer, seed, adapters, learned position table. Layout,
/// cluster, batch, sequence length, rotary embedding, recomputation and learning rate may differ. Throws ConfigError that lists every
/// wrong field.
void require_resumable(const Checkpoint& checkpoint, const Plan& plan);

/// Checks that `plan` has the model and adapters of the checkpoint, whatever it is trained with. Throws ConfigError as above.
void require_same_model(const Checkpoint& checkpoint, const Plan& plan);

/// The hyper-parameters that `plan` changes, as phrases like "training.learning_rate from 0.001 to 0.002". The end of the learning
/// rate's decay is not listed, because it also depends on the length of the run.
std::vector<std::string> changed_hyper_parameters(const Checkpoint& checkpoint, const Plan& plan);
/// Of these, the ones of rotary embeddings, on which the model's results depend.
std::vector<std::string> changed_rotations(const Checkpoint& checkpoint, const Plan& plan);

}  // namespace tandem::exec
