#include "models/base/error.hpp"
#include "topology/topology.hpp"

namespace tandem {
namespace {

/// Another topology in everything but its device's calibration.
class Recalibrated final : public Topology {
 public:
  Recalibrated(std::shared_ptr<const Topology> other, std::string calibration)
      : other_(std::move(other)), device_(other_->device()) {
    device_.calibration = std::move(calibration);
  }

  const Device& device() const override { return device_; }
  double speed(DeviceId d) const override { return other_->speed(d); }
  ScaleUp scale_up() const override { return other_->scale_up(); }
  std::int64_t devices() const override { return other_->devices(); }
  std::int64_t devices_per_node() const override { return other_->devices_per_node(); }
  std::int64_t ranks_per_device() const override { return other_->ranks_per_device(); }
  DeviceId device_of(Rank r) const override { return other_->device_of(r); }
  const std::vector<Link>& links() const override { return other_->links(); }
  std::vector<std::int32_t> route(DeviceId from, DeviceId to) const override { return other_->route(from, to); }
  const std::vector<std::int32_t>& ring_order() const override { return other_->ring_order(); }
  std::int64_t cores_per_chip() const override { return other_->cores_per_chip(); }
  Bandwidth built(std::int32_t link) const override { return other_->built(link); }
  Bandwidth cable() const override { return other_->cable(); }
  std::int64_t devices_per_nic() const override { return other_->devices_per_nic(); }
  std::optional<Algorithm> algorithm(CollectiveKind k) const override { return other_->algorithm(k); }
  HostProcessor host_processor() const override { return other_->host_processor(); }
  bool network_reduces() const override { return other_->network_reduces(); }
  std::optional<double> network_share() const override { return other_->network_share(); }
  NcclSettings nccl_settings() const override { return other_->nccl_settings(); }
  const std::vector<std::string>& unverified() const override { return other_->unverified(); }

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
