#pragma once
// A folder of checkpoints. Each is a folder `step-00000008/` with a manifest and one file per rank. The file `latest` names one.

#include <string>
#include <vector>

#include "exec/checkpoint/manifest.hpp"

namespace tandem::exec {

/// For example "step-00000008".
std::string step_name(std::int64_t steps);
/// For example "rank-00000.safetensors".
std::string rank_file(Rank rank);

/// Names of the folder's entries that a checkpoint could have, complete or not, by steps. Empty where there is no folder.
std::vector<std::string> checkpoint_names(const std::string& path);

/// `path` is a folder of checkpoints, or one of them. Throws ConfigError.
Checkpoint open_folder(const std::string& path);

/// Gives the whole checkpoint `written`, a folder inside `path`, its name and makes it the latest; a checkpoint that
/// had the name is removed. Then removes checkpoints of fewer steps, but for the last `keep` in all. Throws ConfigError, also where
/// another folder has the name.
void publish(const std::string& path, const std::string& written, std::int64_t steps, std::int64_t keep);

}  // namespace tandem::exec
