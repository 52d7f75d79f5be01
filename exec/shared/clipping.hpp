#pragma once
// Turns the sum of the gradients' squares into the norm, the update's clip coefficient and the next step's loss scale.

#include <cmath>

#include "exec/backend/step_table.hpp"
#include "exec/shared/exact_words.hpp"
#include "exec/shared/hd.hpp"
#include "models/plan/loss_scale.hpp"

namespace tandem::exec {

/// As torch.nn.utils.clip_grad_norm_.
TANDEM_HD inline double clip_coefficient(double norm, double clip_grad) {
  if (clip_grad <= 0) return 1;
  const double share = clip_grad / (norm + 1e-6);
  return share < 1 ? share : 1;
}

/// Updates the loss scale for the next step (models/plan/loss_scale.hpp).
TANDEM_HD inline void move_scale(const LossScale& rule, StepTable& table) {
  const std::int64_t good = table.good_steps + 1, next = table.bad_steps + 1;
  const std::int64_t bad = next < rule.hysteresis ? next : rule.hysteresis;
  if (table.found_nonfinite) {
    table.good_steps = 0;
    table.bad_steps = static_cast<std::uint32_t>(bad);
    const double half = table.loss_scale / 2;
    if (bad == rule.hysteresis) table.loss_scale = half < rule.minimum ? rule.minimum : half;
  } else if (good < rule.window) {
    table.good_steps = static_cast<std::uint32_t>(good);
  } else {
    table.good_steps = table.bad_steps = 0;
    table.loss_scale *= 2;
  }
}

/// Writes gradient norm, non-finite flag and clip coefficient. `total`: sum of squares of the gradients, loss scale included.
TANDEM_HD inline void clip(double total, double clip_grad, StepTable& table) {
  table.grad_norm = std::sqrt(total) * table.inverse_scale;
  table.found_nonfinite = !std::isfinite(total);
  table.clip_coefficient = table.found_nonfinite ? 0 : clip_coefficient(table.grad_norm, clip_grad) * table.inverse_scale;
}

}  // namespace tandem::exec
