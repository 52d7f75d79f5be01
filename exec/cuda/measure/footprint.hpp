#pragma once
// Device memory that a process holds before it allocates anything itself.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/cuda/cublaslt.hpp"
#include "exec/cuda/measure/nvml.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// Taken step by step, each by the driver's count of used memory (by the runtime's free memory where there is no management
/// library; the context itself is then unknown). Must be made before anything else that uses the device.
class Footprint {
 public:
  explicit Footprint(const Nvml& nvml);
  /// Creates the context.
  void context();
  /// Opens cuBLASLt and multiplies once.
  std::unique_ptr<CublasLt> cublaslt();
  /// A communicator of one rank; returns NCCL's version, or "" where the library is not found.
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
