#pragma once
// A checkpoint in one file that any safetensors reader can read.
//
// Weights have the parameters' names; optimizer tensors are named BUFFER.NAME. All are whole, in ascending order of the model.
// `__metadata__` holds format, schema_version, steps, samples, data (a hash of the training data), held_out, plan (JSON with
// all defaults) and the loss scale. The last tensor, `checksum`, is FNV-1a over all bytes before it, little-endian.

#include <span>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"

namespace tandem::exec {

/// The training state at one step, as process 0 sees it: every rank has an arena.
struct WholeMoment {
  const StateFacts& facts;
  const Plan& plan;
  std::span<const RankState> ranks;
};

/// Writes tensor by tensor from all ranks' arenas to a temporary file and renames it at the end. Until then the previous checkpoint
/// stays intact. Throws ConfigError if it cannot be written.
void save_single_file(const std::string& path, const SavedRun& run, const WholeMoment& moment);

Checkpoint open_single_file(const std::string& path);

}  // namespace tandem::exec
