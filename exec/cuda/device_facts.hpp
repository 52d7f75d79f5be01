#pragma once
// Properties of CUDA device 0, as the CUDA runtime reports them.

#include <string>
#include <vector>

#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

struct DeviceFacts {
  std::string card, pci;       ///< e.g. "NVIDIA H200", "0000:1b:00.0"
  std::string driver, runtime; ///< CUDA versions, e.g. "13.0"
  int major = 0, minor = 0;    ///< compute capability
  std::vector<Figure> figures;
  std::string capability() const { return std::to_string(major) + "." + std::to_string(minor); }
};

/// Throws DeviceError if there is no device or no driver. Creates no CUDA context.
DeviceFacts require_device();

/// "NVIDIA H200" -> "nvidia-h200".
std::string slug(const std::string& card);

}  // namespace tandem::exec::cuda
