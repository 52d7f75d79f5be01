#pragma once
// Whether a plan goes on from a checkpoint.

#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint.hpp"

namespace tandem::exec {

/// Whether `plan` goes on where the checkpoint ends: the same model, numbers, optimizer, seed, sequences and batches up to there.
/// Layout, cluster, micro-batch, recomputation and learning rate may be others. Throws ConfigError with every field that may not.
void require_resumable(const Checkpoint& checkpoint, const Plan& plan);

/// The hyper-parameters that `plan` changes, one phrase each: "training.learning_rate from 0.001 to 0.002". The end of the learning
/// rate's decay is none of them: it depends on the length of the run, too.
std::vector<std::string> changed_hyper_parameters(const Checkpoint& checkpoint, const Plan& plan);

}  // namespace tandem::exec
