#pragma once
// Keeps a training's state on the disk.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/process/world.hpp"
#include "exec/state/state_keeper.hpp"

namespace tandem::exec {

/// What a keeper is asked for. Its functions are called in process 0 alone.
struct KeeperOptions {
  std::string path;
  SavedRun run;
  std::int64_t keep = 2;  ///< checkpoints that stay in a folder, at least 1
  /// Whether the state is worth keeping.
  std::function<bool()> wanted;
  /// A checkpoint of so many steps is whole.
  std::function<void(std::int64_t)> kept;
  /// One could not be written: ConfigError, or DeviceError where the host has no memory. The training goes on.
  std::function<void(std::exception_ptr)> lost;
  /// What else is to be said.
  std::function<void(const std::string&)> tell;
};

/// A folder, or one file where names_one_file(): process 0 then writes it alone. In every process alike.
std::unique_ptr<StateKeeper> make_file_keeper(KeeperOptions options, World& world);

/// Makes the folder that `path` names and sees whether every process can write to it; nothing where it names one file. Throws ConfigError
/// in every process where they see no shared file system.
void prepare_folder(const std::string& path, World& world);

}  // namespace tandem::exec
