#pragma once
// Watches for non-finite losses and gradients. They end a training and protect its last good checkpoint.

#include <cstdint>
#include <optional>
#include <string>

#include "exec/run/run_result.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// Counts the last consecutive steps with non-finite loss or gradients. If the loss scale can still fall, non-finite gradients do
/// not count, because training recovers.
class FiniteWatch {
 public:
  explicit FiniteWatch(const TrainingSpec& training) : least_scale_(training.scales_loss() ? training.loss_scale.minimum : 1) {}
  static constexpr std::int64_t kMost = 20;  ///< consecutive steps; a training that recovers does so sooner

  void note(const exec::StepResult& step);
  bool finite() const { return !since_; }
  bool hopeless() const { return since_ && last_ - *since_ + 1 >= kMost; }
  std::int64_t last() const { return last_; }

  /// For example "loss or gradients are not finite in 20 steps in a row, steps 8 to 27". Only if !finite().
  std::string text() const;

 private:
  double least_scale_;
  std::optional<std::int64_t> since_;
  std::int64_t last_ = -1;
};

/// Advice such as "lower training.learning_rate (0.5), ...", and how to resume from checkpoint `kept` (may be empty).
std::string remedy(const Plan& plan, const std::string& kept);

}  // namespace tandem::program
