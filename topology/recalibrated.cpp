#include "models/base/error.hpp"
#include "topology/same_topology.hpp"

namespace tandem {
namespace {

/// A topology that differs from another one only in its device's calibration.
class Recalibrated final : public SameTopology {
 public:
  Recalibrated(std::shared_ptr<const Topology> other, std::string calibration)
      : SameTopology(*other), other_(std::move(other)), device_(other_->device()) {
    device_.calibration = std::move(calibration);
  }

  const Device& device() const override { return device_; }

 private:
  std::shared_ptr<const Topology> other_;
  Device device_;
};

}  // namespace

std::shared_ptr<const Topology> recalibrated(std::shared_ptr<const Topology> topology, const std::string& calibration) {
  require(topology != nullptr, "a topology to calibrate anew");
  return std::make_shared<Recalibrated>(std::move(topology), calibration);
}

}  // namespace tandem
