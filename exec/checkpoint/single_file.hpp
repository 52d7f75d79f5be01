#pragma once
// A checkpoint in one file, readable by whatever reads safetensors.
//
// Weights are under the parameters' names, an optimizer's numbers under BUFFER.NAME, whole and in ascending order of the model.
// `__metadata__` holds format, schema_version, steps, samples, data (a digest of what was trained on), held_out, plan (JSON with every
// default) and the loss scale. The last tensor, `checksum`, is FNV-1a over every byte before it, little-endian.

#include <span>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"

namespace tandem::exec {

/// A moment of a run, as process 0 sees it: every rank has an arena.
struct WholeMoment {
  const StateFacts& facts;
  const Plan& plan;
  std::span<const RankState> ranks;
};

/// Writes the file beside its place and renames it, so that the one before it stays whole until then: tensor by tensor out of the arenas
/// of all ranks. Throws ConfigError when it cannot be written.
void save_single_file(const std::string& path, const SavedRun& run, const WholeMoment& moment);

Checkpoint open_single_file(const std::string& path);

}  // namespace tandem::exec
