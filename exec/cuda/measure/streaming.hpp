#pragma once
// Memory-bound kernels and copies.

#include <functional>
#include <vector>

#include "exec/cuda/measure/bench.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// A kernel at one size: its operation, the bytes it must move (each operand once), and a call.
struct StreamingCase {
  CostSample sample;
  std::function<void()> call;
};

/// Copy, addition, gradient accumulation, bias and GELU, layer norm, RMS norm, softmax, cross-entropy, AdamW, cast to fp8,
/// clearing. Each moves 64 KiB to 4 GiB, as memory allows. The bench must outlive the calls. Its inputs are overwritten with
/// numbers in (0, 1).
std::vector<StreamingCase> streaming_cases(Bench& bench);

/// Times copies on the device, and to and from pinned host memory. `busy_s`: seconds of load for each.
std::vector<CopySample> time_copies(Bench& bench, double busy_s);

}  // namespace tandem::exec::cuda
