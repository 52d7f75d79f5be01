#pragma once
// Checkpoints of a training, and messages about them.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/process/world.hpp"
#include "exec/state/state_keeper.hpp"
#include "experiments/tandem/training/finite_watch.hpp"
#include "models/base/file_lock.hpp"

namespace tandem::program {

struct SaveOptions {
  std::string path;       ///< empty: no checkpoints
  exec::SavedRun run;
  std::int64_t keep = 2;  ///< number of checkpoints that stay in a folder
};

/// Decides about checkpoints and reports on them, in process 0. A full disk or memory does not end a long training, but changes its
/// exit code. After a non-finite step nothing is saved, so that the last good checkpoint stays.
class SaveLog {
 public:
  /// Keeps references to `plan` and `watch`. `goes_on` says whether more steps follow the last finished one.
  SaveLog(std::string path, const Plan& plan, const FiniteWatch& watch, std::function<bool()> goes_on);

  bool wanted();
  void kept(std::int64_t steps) { kept_ = steps; }
  void lost(std::exception_ptr error);
  /// Why the last checkpoint was not written; nothing if it was, or none was wanted.
  std::optional<std::string> unsaved() const;
  /// Throws if the last checkpoint could not be written, or was skipped because of non-finite values.
  void finish() const;

 private:
  std::string refusal() const;

  std::string path_;
  const Plan& plan_;
  const FiniteWatch& watch_;
  std::function<bool()> goes_on_;
  std::int64_t kept_ = 0;  ///< steps of the last checkpoint of this run; 0: none
  std::exception_ptr failed_;
  bool failure_told_ = false;
  bool told_ = false;        ///< that nothing is saved since a non-finite step
};

/// Keeps other runs away from the place that `save` names, with a file `lock` in the folder, which is made, or SAVE.lock beside a
/// file. Returns nullptr if nothing is saved, or not to a file. Throws ConfigError if another run has the place.
std::unique_ptr<FileLock> lock_place(const std::string& save);

/// Throws ConfigError if `save` names a file, or a folder with checkpoints, that the run does not resume: a run replaces only what it
/// resumed.
void require_own_place(const std::string& save, const std::string& resume);

/// Returns nullptr if nothing is to be saved. Keeps references to `log` and `world`.
std::unique_ptr<exec::StateKeeper> make_keeper(const SaveOptions& options, SaveLog& log, exec::World& world);

}  // namespace tandem::program
