#pragma once
// Measures this machine's processors into a cost table, with which `cpu-host` is simulated.

#include <functional>
#include <string>
#include <vector>

#include "exec/measure/measuring_stopped.hpp"
#include "models/base/dtype.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec {

struct MeasureOptions {
  bool quick = false;                  ///< coarser grids, in about a quarter of the time
  /// Types of the timed computations: fp64, fp32, bf16, fp16. A plan in 16 bits also needs fp32. The slowdown between cores is
  /// measured in the first type.
  std::vector<DType> dtypes{DType::fp32};
  double computation_s = 0;            ///< seconds per type, at least one round; 0: 35, or 9 if quick
  /// Called with the present measurement and its progress from 0 to 1. May be empty.
  std::function<void(const std::string& what, double done)> progress;
  std::function<bool()> stop;          ///< called repeatedly; returning true ends the measurement early; may be empty
};

/// Times every computation on the CPU backend, communication on the thread communicator, the host's time per task, and the slowdown
/// between cores. Takes under a minute (quick: a quarter). The machine should be idle. Throws MeasuringStopped if stopped before
/// everything was timed once, DeviceError if the host cannot start a thread.
CostTable measure_cpu(const MeasureOptions& options);

}  // namespace tandem::exec
