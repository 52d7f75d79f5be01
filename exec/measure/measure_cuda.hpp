#pragma once
// What a CUDA device really takes, as a cost table. Built from exec/cuda where the toolkit is, else from its twin
// exec/measure/cuda_absent.cpp that refuses.

#include <functional>
#include <string>
#include <vector>

#include "exec/measure/measuring_stopped.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec {

struct CudaMeasureOptions {
  std::string device;                  ///< name of the table; empty: the card's name in lower case with hyphens
  double seconds = 240;                ///< all of it, about; what does not fit is left out and said
  std::vector<CostSample> wanted;      ///< operations to time first (seconds unread), e.g. those of plans
  /// What is being measured and how far it is (0 to 1); may be empty.
  std::function<void(const std::string& what, double done)> progress;
  std::function<bool()> stop;          ///< asked again and again: true ends the measuring early; may be empty
};

/// Whether this build can measure a CUDA device at all.
bool measures_cuda();

/// Times device 0: matrix products through cuBLASLt, memory-bound kernels, copies, launches, flash attention where cuDNN's
/// frontend was found when Tandem was built, and the memory that the libraries take. Nobody else should use the device.
/// A device that fails on the way, and a measurement that is stopped, leave what was measured until then, and the fact "stopped"
/// that says why. Throws MeasuringStopped where that is nothing.
/// Throws InfeasibleError where this build has no CUDA, DeviceError where there is no device, driver or cuBLASLt.
CostTable measure_cuda(const CudaMeasureOptions& options);

}  // namespace tandem::exec
