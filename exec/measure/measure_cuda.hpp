#pragma once
// Measures a CUDA device into a cost table. Builds without the
// CUDA toolkit use exec/measure/cuda_absent.cpp, which refuses.

#include <functional>
#include <string>
#include <vector>

#include "exec/measure/measuring_stopped.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec {

struct CudaMeasureOptions {
  std::string device;                  ///< name of the table; empty: the card's name in lower case with hyphens
  double seconds = 240;                ///< approximate total; measurements that do not fit are left out and listed
  std::vector<CostSample> wanted;      ///< operations to time first (their seconds are ignored), e.g. those of plans
  /// Called with the present measurement and its progress from 0 to 1. May be empty.
  std::function<void(const std::string& what, double done)> progress;
  std::function<bool()> stop;          ///< called repeatedly; returning true ends the measurement early; may be empty
};

/// True if this build can measure CUDA devices.
bool measures_cuda();

/// Times device 0: products by cuBLASLt, memory-bound kernels, copies, launches, flash attention
/// (if cuDNN's frontend was found in the build), and the libraries' memory. No other process
/// should use the device. If the device fails, or the measurement is stopped, the results so far
/// are kept, and the fact "stopped" gives the reason. Throws MeasuringStopped if there are none.
/// Throws InfeasibleError in a build without CUDA, DeviceError without device, driver or cuBLASLt.
CostTable measure_cuda(const CudaMeasureOptions& options);

}  // namespace tandem::exec
