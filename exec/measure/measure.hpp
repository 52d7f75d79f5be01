#pragma once
// What this machine's processors really take: the cost table that simulates `cpu-host`.

#include <functional>
#include <string>
#include <vector>

#include "exec/measure/measuring_stopped.hpp"
#include "models/base/dtype.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec {

struct MeasureOptions {
  bool quick = false;                  ///< coarser grids, about a quarter of the time
  /// What computations are timed in: fp64, fp32, bf16, fp16. A plan in 16 bits has fp32 beside them. How cores slow each other down is
  /// measured in the first.
  std::vector<DType> dtypes{DType::fp32};
  double computation_s = 0;            ///< seconds for the computations of a type, at least one round; 0: 35, quick 9
  /// What is being measured and how far it is (0 to 1); may be empty.
  std::function<void(const std::string& what, double done)> progress;
  std::function<bool()> stop;          ///< asked again and again: true ends the measuring early; may be empty
};

/// Times every computation through the CPU backend, communication through the thread communicator, the host's time per
/// task, and how cores slow each other down. Takes under a minute (quick: a quarter); the machine should have nothing else to do.
/// Throws MeasuringStopped when it is stopped before everything has been timed once, DeviceError where the host gives no thread.
CostTable measure_cpu(const MeasureOptions& options);

}  // namespace tandem::exec
