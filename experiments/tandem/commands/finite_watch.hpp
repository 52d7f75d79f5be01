#pragma once
// Whether a training is still in the numbers: what ends it, and what keeps its last good checkpoint.

#include <cstdint>
#include <optional>
#include <string>

#include "exec/run/run_result.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// The steps in a row, up to the last one, whose loss or gradients were not finite. Gradients that a loss scale may have driven out of
/// the numbers are none of them: it falls, and the run goes on.
class FiniteWatch {
 public:
  explicit FiniteWatch(const TrainingSpec& training) : least_scale_(training.scales_loss() ? training.loss_scale.minimum : 1) {}
  static constexpr std::int64_t kMost = 20;  ///< in a row: a training that comes back does so sooner

  void note(const exec::StepResult& step);
  bool finite() const { return !since_; }
  bool hopeless() const { return since_ && last_ - *since_ + 1 >= kMost; }
  std::int64_t last() const { return last_; }

  /// "loss or gradients are not finite in 20 steps in a row, steps 8 to 27"; only where not finite().
  std::string text() const;

 private:
  double least_scale_;
  std::optional<std::int64_t> since_;
  std::int64_t last_ = -1;
};

/// What may help: "lower training.learning_rate (0.5), ...", and how to go on from the checkpoint that `kept` names (may be empty).
std::string remedy(const Plan& plan, const std::string& kept);

}  // namespace tandem::program
