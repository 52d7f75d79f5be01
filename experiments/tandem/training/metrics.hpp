#pragma once
// The metrics of a training as JSON lines, one for each step and each evaluation.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/run/run_result.hpp"
#include "experiments/tandem/training/rates.hpp"
#include "models/base/appended_file.hpp"
#include "models/base/error.hpp"
#include "models/base/json.hpp"

namespace tandem::program {

/// What a run has behind it, and the size of a sequence.
struct MetricsBegin {
  std::int64_t steps = 0;            ///< optimizer steps before the run's first
  std::int64_t samples = 0;          ///< sequences that they consumed
  std::int64_t tokens = 0;           ///< tokens of those sequences
  std::int64_t sequence_tokens = 0;  ///< tokens of a sequence
  bool evaluates = false;            ///< the run begins with the evaluation that follows the steps behind it
};

/// Appends a line after each step and evaluation, so that a killed run loses none. A run that is resumed keeps the lines of the steps
/// behind it and removes later ones; a new run replaces the file. If writing fails later, the training goes on without it, and the file ends with a whole line.
class MetricsFile {
 public:
  /// Does nothing if `path` is empty. Throws ConfigError if the file cannot be written, or holds other lines than metrics of a run that
  /// is resumed.
  MetricsFile(std::string path, const MetricsBegin& begin);

  void add(const exec::StepResult& step, const StepRates& rates);
  void add(const exec::EvaluationResult& evaluation);

  /// Why the file lacks its last lines; nothing if it has all of them.
  std::optional<std::string> lost() const;
  /// Throws ConfigError if the file lacks lines.
  void finish() const;

 private:
  void append(const nlohmann::json& line);

  std::string path_;
  MetricsBegin begin_;
  std::int64_t samples_ = 0;
  std::unique_ptr<AppendedFile> file_;  ///< nullptr: nothing is written
  std::optional<Problem> lost_;
};

}  // namespace tandem::program
