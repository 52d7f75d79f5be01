#pragma once
// The factor that keeps small 16-bit gradients above fp16's underflow (Micikevicius et al., arXiv 1710.03740, section 3.2).

#include <cstdint>

namespace tandem {

/// How a dynamic loss scale changes (NVIDIA/Megatron-LM: megatron/core/optimizer/grad_scaler.py,
/// DynamicGradScaler; defaults from megatron/training/arguments.py: --initial-loss-scale, --min-loss-scale,
/// --loss-scale-window and --hysteresis). It doubles after `window` consecutive steps with finite gradients. It
/// halves after a step with non-finite gradients, if `hysteresis` such steps have occurred since it last grew.
struct LossScale {
  double initial = 4294967296.0;  ///< 2^32; a power of two, so that scaling rounds nothing
  double minimum = 1;
  std::int64_t window = 1000;     ///< steps
  std::int64_t hysteresis = 2;    ///< steps
};

}  // namespace tandem
