#pragma once
// A base class for topologies that differ from another one in a few functions: it forwards all functions to the other.

#include "topology/topology.hpp"

namespace tandem {

/// Forwards every function that a derived class does not override to another topology, which must outlive this one. All
/// virtual functions of `Topology` with a default belong here, so that no derived class forgets one.
class SameTopology : public Topology {
 public:
  explicit SameTopology(const Topology& other) : other_(other) {}

  const Device& device() const override { return other_.device(); }
  double speed(DeviceId d) const override { return other_.speed(d); }
  ScaleUp scale_up() const override { return other_.scale_up(); }
  std::int64_t devices() const override { return other_.devices(); }
  std::int64_t devices_per_node() const override { return other_.devices_per_node(); }
  std::int64_t ranks_per_device() const override { return other_.ranks_per_device(); }
  std::int64_t threads_per_rank() const override { return other_.threads_per_rank(); }
  DeviceId device_of(Rank r) const override { return other_.device_of(r); }
  std::int32_t link_count() const override { return other_.link_count(); }
  Link link(std::int32_t id) const override { return other_.link(id); }
  std::string link_name(std::int32_t id) const override { return other_.link_name(id); }
  Bandwidth built(std::int32_t link) const override { return other_.built(link); }
  std::vector<std::int32_t> route(DeviceId from, DeviceId to) const override { return other_.route(from, to); }
  std::int64_t period() const override { return other_.period(); }
  std::int32_t stride(std::int32_t link) const override { return other_.stride(link); }
  const std::vector<std::int32_t>& ring_order() const override { return other_.ring_order(); }
  Bandwidth cable() const override { return other_.cable(); }
  std::int64_t devices_per_nic() const override { return other_.devices_per_nic(); }
  HostProcessor host_processor() const override { return other_.host_processor(); }
  bool network_reduces() const override { return other_.network_reduces(); }
  std::optional<double> network_share() const override { return other_.network_share(); }
  std::optional<double> link_share() const override { return other_.link_share(); }
  NcclSettings nccl_settings() const override { return other_.nccl_settings(); }
  std::int64_t cores_per_chip() const override { return other_.cores_per_chip(); }
  std::optional<Algorithm> algorithm(CollectiveKind k) const override { return other_.algorithm(k); }
  const std::vector<std::string>& unverified() const override { return other_.unverified(); }

 protected:
  const Topology& other() const { return other_; }

 private:
  const Topology& other_;
};

}  // namespace tandem
