#pragma once
// Kernels that memory limits, and copies.

#include <functional>
#include <vector>

#include "exec/cuda/measure/bench.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// One kernel at one size: the operation it performs, the bytes it must move (each operand once), and a call of it.
struct StreamingCase {
  CostSample sample;
  std::function<void()> call;
};

/// Copy, addition, gradient accumulation, bias and GELU, layer norm, RMS norm, softmax, cross-entropy, AdamW, cast to fp8 and
/// clearing, each moving 64 KiB to 4 GiB (what memory holds of it). The bench outlives the calls; its inputs are overwritten with
/// numbers in (0, 1).
std::vector<StreamingCase> streaming_cases(Bench& bench);

/// Copies on the device, to it and from it (pinned memory). `busy_s`: load for each.
std::vector<CopySample> time_copies(Bench& bench, double busy_s);

}  // namespace tandem::exec::cuda
