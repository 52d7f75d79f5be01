#pragma once
// Device memory that a process uses before it allocates any itself.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/cuda/cublaslt.hpp"
#include "exec/cuda/measure/nvml.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// Measures step by step how the driver's count of used memory grows. Without NVIDIA's management library it uses the runtime's
/// free memory; then the context's size is unknown. Make it before anything else that uses the device.
class Footprint {
 public:
  explicit Footprint(const Nvml& nvml);
  /// Creates the CUDA context.
  void context();
  /// Opens cuBLASLt and performs one product.
  std::unique_ptr<CublasLt> cublaslt();
  /// Makes a communicator of one rank. Returns NCCL's version, or "" if the library is not found.
  std::string nccl();

  const std::vector<Figure>& figures() const { return figures_; }
  Bytes total() const { return total_; }

 private:
  double used() const;
  void add(const std::string& name, const std::string& how);
  const Nvml& nvml_;
  std::optional<double> before_;
  std::vector<Figure> figures_;
  Bytes total_;
};

}  // namespace tandem::exec::cuda
