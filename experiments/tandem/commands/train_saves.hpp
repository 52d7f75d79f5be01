#pragma once
// Checkpoints of a training, and what is said of them.

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/process/world.hpp"
#include "exec/state/state_keeper.hpp"
#include "experiments/tandem/commands/finite_watch.hpp"

namespace tandem::program {

struct SaveOptions {
  std::string path;       ///< empty: nothing is saved
  exec::SavedRun run;
  std::int64_t keep = 2;  ///< checkpoints that stay in a folder
};

/// What is said and remembered of checkpoints, in process 0. A full disk or a full memory does not end a long training, but its exit
/// code tells. Nothing is saved behind a step that was not finite: what was saved before is better.
class SaveLog {
 public:
  /// References are kept.
  SaveLog(std::string path, const Plan& plan, const FiniteWatch& watch);

  bool wanted();
  void kept(std::int64_t steps) { kept_ = steps; }
  void lost(std::exception_ptr error);
  /// Throws where the last checkpoint could not be written, or a training that has left the numbers was not.
  void finish() const;

 private:
  std::string refusal() const;

  std::string path_;
  const Plan& plan_;
  const FiniteWatch& watch_;
  std::int64_t kept_ = 0;  ///< steps of the checkpoint that this run wrote; 0: none
  std::exception_ptr failed_;
};

/// Throws ConfigError where `save` names a file, or a folder with checkpoints, that `resume` does not: a run replaces only what it goes
/// on from.
void require_own_place(const std::string& save, const std::string& resume);

/// Nothing where nothing is saved. `log` and `world` are kept by reference.
std::unique_ptr<exec::StateKeeper> make_keeper(const SaveOptions& options, SaveLog& log, exec::World& world);

}  // namespace tandem::program
