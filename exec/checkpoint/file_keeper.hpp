#pragma once
// Saves the training state to disk during a run.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/process/world.hpp"
#include "exec/state/state_keeper.hpp"

namespace tandem::exec {

/// Options of a keeper. Its callbacks run in process 0 only.
struct KeeperOptions {
  std::string path;
  SavedRun run;
  std::int64_t keep = 2;  ///< number of checkpoints that stay in a folder, at least 1
  /// Returns true if the state should be saved now.
  std::function<bool()> wanted;
  /// Called after a checkpoint is complete, with its number of steps.
  std::function<void(std::int64_t)> kept;
  /// Called when a checkpoint was not written, with ConfigError, or DeviceError if host memory ran out. The training goes on.
  std::function<void(std::exception_ptr)> lost;
  /// Called with other messages for the user.
  std::function<void(const std::string&)> tell;
};

/// Saves to a folder, or to one file if names_one_file(); then process 0 writes alone. Every process must make one.
std::unique_ptr<StateKeeper> make_file_keeper(KeeperOptions options, World& world);

/// Creates the folder `path` and checks that every process can access it. Does nothing if `path` names one file. If they do not
/// share a file system, every process throws ConfigError.
void prepare_folder(const std::string& path, World& world);

}  // namespace tandem::exec
