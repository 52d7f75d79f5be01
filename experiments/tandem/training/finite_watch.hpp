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
  explicit FiniteWatch(const TrainingSpec& training)
      : least_scale_(training.scales_loss() ? training.loss_scale.minimum : 1),
        wide_(training.precision == "fp32" || training.precision == "fp64") {}
  static constexpr std::int64_t kMost = 20;  ///< consecutive steps; a training that recovers does so sooner

  void note(const exec::StepResult& step);
  bool finite() const { return !since_; }
  bool hopeless() const { return since_ && last_ - *since_ + 1 >= kMost; }
  std::int64_t last() const { return last_; }

  bool was_finite() const { return was_finite_; }  ///< in at least one step of this run
  bool wide() const { return wide_; }              ///< whether the training is in 32 or 64 bits

  /// For example "loss or gradients are not finite in 20 steps in a row, steps 8 to 27". Only if !finite().
  std::string text() const;

 private:
  double least_scale_;
  bool wide_;
  std::optional<std::int64_t> since_;
  std::int64_t last_ = -1;
  bool was_finite_ = false;
};

/// Advice such as "lower training.learning_rate (0.5), ...", and how to resume from checkpoint `kept` (may be empty). If no step was
/// finite, no rate of this run has led there: then it names what the run began with.
std::string remedy(const Plan& plan, const FiniteWatch& watch, const std::string& kept);

}  // namespace tandem::program
