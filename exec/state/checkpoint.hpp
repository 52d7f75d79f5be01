#pragma once
// A training state as a file, readable by whatever reads safetensors.
//
// The file is one safetensors file (https://github.com/huggingface/safetensors, "Format"): weights under the parameters' names,
// an optimizer's numbers under BUFFER.NAME, whole and in ascending order of the model. `__metadata__` holds format, schema_version,
// steps, samples, data (a digest of what was trained on), held_out and plan (JSON with every default). The last tensor, `checksum`,
// is FNV-1a over every byte before it, little-endian.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/state/training_state.hpp"

namespace tandem::exec {

struct Checkpoint {
  TrainingState state;
  std::string plan_json;   ///< of the run that was saved
  std::uint64_t data = 0;  ///< TokenSource::fingerprint of what it was trained on
  /// Share of the text, its end, that was not trained on; none: the file is of a version that did not say.
  std::optional<double> held_out = std::nullopt;
};

/// Writes the file beside its place and renames it, so that the one before it stays whole until then. Throws ConfigError when it
/// cannot be written.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// Throws ConfigError when the file cannot be read, is none of save_checkpoint's, is cut short or damaged.
Checkpoint load_checkpoint(const std::string& path);

/// Whether `plan` goes on where the checkpoint ends: the same model, numbers, optimizer, seed, sequences and batches up to there.
/// Layout, cluster, micro-batch, recomputation and learning rate may be others. Throws ConfigError with every field that may not.
void require_resumable(const std::string& path, const Checkpoint& checkpoint, const Plan& plan);

/// The hyper-parameters that `plan` changes, one phrase each: "training.learning_rate from 0.001 to 0.002". The end of the learning
/// rate's decay is none of them: it depends on the length of the run, too.
std::vector<std::string> changed_hyper_parameters(const std::string& path, const Checkpoint& checkpoint, const Plan& plan);

}  // namespace tandem::exec
