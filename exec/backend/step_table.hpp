#pragma once
// The values that change from step to step.

#include <cstdint>

namespace tandem::exec {

/// Each rank has one, in its backend's memory. Kernels read it there, so a task's arguments stay the same in every step. The host
/// writes it before the step's first task is issued, and reads it after the step's last task.
struct StepTable {
  double learning_rate = 0;
  double bias_correction1 = 1;      ///< 1 - beta1^t
  double bias_correction2 = 1;      ///< 1 - beta2^t
  double loss_scale = 1;            ///< factor on the loss; ClipCoefficient replaces it by the next step's factor
  double inverse_scale = 1;         ///< 1 / loss_scale of this step, exact for powers of two
  double grad_norm = 0;             ///< set by ClipCoefficient
  double clip_coefficient = 1;      ///< set by ClipCoefficient
  std::uint64_t step = 0;           ///< 0-based optimizer step
  std::int64_t first_sample = 0;    ///< global index of the step's first sequence within the run
  std::int64_t targets = 0;         ///< targets in the step's global batch; 0: as many as CrossEntropy names
  std::uint32_t good_steps = 0;     ///< consecutive steps with finite gradients since loss_scale last changed
  std::uint32_t bad_steps = 0;      ///< steps with non-finite gradients since loss_scale last grew, at most the hysteresis
  bool found_nonfinite = false;     ///< set by ClipCoefficient
};

}  // namespace tandem::exec
