#pragma once
// What changes from step to step.

#include <cstdint>

namespace tandem::exec {

/// One a rank, in its backend's memory, where kernels read it: so a task's arguments are the same in every step. The host writes it
/// before a step's first task is issued and reads it when the step's last one has ended.
struct StepTable {
  double learning_rate = 0;
  double bias_correction1 = 1;      ///< 1 - beta1^t
  double bias_correction2 = 1;      ///< 1 - beta2^t
  double loss_scale = 1;            ///< what the loss is multiplied by; behind ClipCoefficient that of the next step
  double inverse_scale = 1;         ///< 1 / loss_scale of this step, exact for powers of two
  double grad_norm = 0;             ///< set by ClipCoefficient
  double clip_coefficient = 1;      ///< set by ClipCoefficient
  std::uint64_t step = 0;           ///< 0-based optimizer step
  std::int64_t first_sample = 0;    ///< global index of the step's first sequence within the run
  std::uint32_t good_steps = 0;     ///< with finite gradients, in a row, since loss_scale changed
  std::uint32_t bad_steps = 0;      ///< without them since loss_scale last grew, at most the hysteresis
  bool found_nonfinite = false;     ///< set by ClipCoefficient
};

}  // namespace tandem::exec
