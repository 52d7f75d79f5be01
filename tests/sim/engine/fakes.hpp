#pragma once
// Small machines whose every number is chosen by the test.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::sim::test {

/// A computation takes as many picoseconds as its matrix has rows.
inline Op work(Duration d) { return MatMul{d.ps(), 1, 1}; }

class FakeCost : public CostModel {
 public:
  Duration host_launch;
  CommFit fit;
  std::vector<double> slowdowns{1.0};
  std::optional<Duration> measured;

  Duration duration(const Op& op, DType) const override {
    const auto* m = std::get_if<MatMul>(&op);
    return m != nullptr ? Duration::picoseconds(m->m) : Duration{};
  }
  Duration launch() const override { return host_launch; }
  bool covered(const Op&, DType) const override { return true; }
  double slowdown(std::int64_t active) const override {
    return slowdowns[std::min(slowdowns.size(), static_cast<std::size_t>(active)) - 1];
  }
  std::optional<Duration> communication(const Op&, std::int64_t) const override { return measured; }
  CommFit comm_fit() const override { return fit; }
  std::vector<std::string> notes() const override { return {}; }
};

/// Numbers that define a fake machine.
struct Shape {
  ScaleUp scale_up = ScaleUp::crossbar;
  std::int64_t devices = 1, per_node = 0;  ///< per_node 0: one node
  std::int64_t ranks_per_device = 1;
  Bandwidth bandwidth = Bandwidth::bytes_per_second(50e9);
  Duration latency;  ///< of a whole route on a crossbar, of each link elsewhere
  bool synchronous = false;
  std::string calibration = {};
  std::optional<Algorithm> algorithm = {};  ///< of every collective
};

/// Crossbar: a link up (with the latency) and one down for each device. Full mesh: a link for each pair. Torus: a
/// one-dimensional one, links both ways between neighbours.
class FakeTopology : public Topology {
 public:
  explicit FakeTopology(const Shape& shape) : shape_(shape) {
    if (shape_.per_node == 0) shape_.per_node = shape_.devices;
    device_.name = "fake";
    device_.synchronous = shape.synchronous;
    device_.calibration = shape.calibration;
    device_.memory = device_.usable_memory = Bytes(std::int64_t{1} << 30);
    device_.peak[DType::fp32] = FlopRate::flops_per_second(1e12);
    device_.vector_rate = FlopRate::flops_per_second(1e11);
    device_.memory_bandwidth = Bandwidth::bytes_per_second(1e11);
    const std::int64_t n = shape_.devices;
    const std::int64_t count = shape_.scale_up == ScaleUp::full_mesh ? n * n : 2 * n;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool down = shape_.scale_up == ScaleUp::crossbar && i >= n;
      links_.push_back({shape_.bandwidth, down ? Duration{} : shape_.latency});
    }
    for (std::int32_t d = 0; d < shape_.per_node; ++d) ring_.push_back(d);
  }

  const Device& device() const override { return device_; }
  ScaleUp scale_up() const override { return shape_.scale_up; }
  std::int64_t devices() const override { return shape_.devices; }
  std::int64_t devices_per_node() const override { return shape_.per_node; }
  std::int64_t ranks_per_device() const override { return shape_.ranks_per_device; }
  DeviceId device_of(Rank r) const override {
    return DeviceId(static_cast<std::int32_t>(r.value() / shape_.ranks_per_device));
  }
  std::int32_t link_count() const override { return static_cast<std::int32_t>(links_.size()); }
  Link link(std::int32_t id) const override { return links_[static_cast<std::size_t>(id)]; }
  std::string link_name(std::int32_t id) const override { return "link" + std::to_string(id); }
  const std::vector<std::int32_t>& ring_order() const override { return ring_; }
  std::optional<Algorithm> algorithm(CollectiveKind) const override { return shape_.algorithm; }
  const std::vector<std::string>& unverified() const override { return unverified_; }

  std::vector<std::int32_t> route(DeviceId from, DeviceId to) const override {
    const auto n = static_cast<std::int32_t>(shape_.devices);
    if (from == to) return {};
    if (shape_.scale_up == ScaleUp::crossbar) return {from.value(), n + to.value()};
    if (shape_.scale_up == ScaleUp::full_mesh) return {from.value() * n + to.value()};
    const std::int32_t ahead = (to.value() - from.value() + n) % n;
    std::vector<std::int32_t> path;
    for (std::int32_t at = from.value(); at != to.value();) {
      path.push_back(2 * ahead <= n ? at : n + at);
      at = (at + (2 * ahead <= n ? 1 : n - 1)) % n;
    }
    return path;
  }

  Device& edit() { return device_; }
  std::vector<Link>& edit_links() { return links_; }

 private:
  Shape shape_;
  Device device_;
  std::vector<Link> links_;
  std::vector<std::int32_t> ring_;
  std::vector<std::string> unverified_;
};

/// tp x dp x pp, tensor fastest.
inline Mesh mesh(std::int64_t tp, std::int64_t dp, std::int64_t pp) {
  return Mesh({tp, 1, 1, dp, pp}, "tp-cp-ep-dp-pp");
}

}  // namespace tandem::sim::test
