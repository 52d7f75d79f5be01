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

/// Names in the folder that checkpoints have, ascending in steps, of incomplete ones too. Empty if there is no folder.
std::vector<std::string> checkpoint_names(const std::string& path);

/// Opens a folder of checkpoints (its latest one) or a single checkpoint folder. Throws ConfigError.
Checkpoint open_folder(const std::string& path);

/// The file in a folder of checkpoints that names the latest one.
std::string latest_file(const std::string& path);
/// The name in that file; empty if the file does not exist.
std::string latest_name(const std::string& path);

/// Renames the complete checkpoint `written`, a folder inside `path`, to its final name and makes it the latest. A checkpoint that
/// had this name is removed. Then removes older ones (fewer steps) until `keep` are left. Throws ConfigError, also if another folder
/// has the name, and if latest_name() is neither empty nor `before`: another run has saved there.
void publish(const std::string& path, const std::string& written, std::int64_t steps, std::int64_t keep, const std::string& before);

}  // namespace tandem::exec
