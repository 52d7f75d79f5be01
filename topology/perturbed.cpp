#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "models/base/error.hpp"
#include "models/base/text.hpp"
#include "topology/link_names.hpp"
#include "topology/same_topology.hpp"

namespace tandem {
namespace {

using Route = std::vector<std::int32_t>;

Problem problem(const std::string& field, std::string value, std::string reason, std::string remedy) {
  return {"", "cluster.perturbation." + field, std::move(value), std::move(reason), std::move(remedy)};
}

class Perturbed final : public SameTopology {
 public:
  Perturbed(const Topology& machine, const Perturbation& perturbation) : SameTopology(machine) {
    for (const SlowDevice& slow : perturbation.slow_devices) slow_down(slow);
    for (const SlowLink& slow : perturbation.slow_links)
      for (const std::int32_t link : named("slow_links", slow.link))
        slowed_.insert_or_assign(link, this->link(link).bandwidth * slow.factor);
    for (const std::string& link : perturbation.lost_links)
      for (const std::int32_t l : named("lost_links", link)) lost_.insert(l);
    if (!problems_.empty()) throw ConfigError(std::move(problems_));
  }

  double speed(DeviceId d) const override {
    const auto at = speeds_.find(d);
    return other().speed(d) * (at == speeds_.end() ? 1 : at->second);
  }
  Link link(std::int32_t id) const override {
    Link link = other().link(id);
    if (const auto at = slowed_.find(id); at != slowed_.end()) link.bandwidth = at->second;
    return link;
  }
  std::int64_t period() const override { return slowed_.empty() && lost_.empty() ? other().period() : 0; }

  Route route(DeviceId from, DeviceId to) const override {
    Route way = other().route(from, to);
    if (lost_.empty() || whole(way)) return way;
    if (std::optional<Route> around = detour(from, to)) return *around;
    const std::string link =
        link_name(*std::find_if(way.begin(), way.end(), [&](auto l) { return lost_.contains(l); }));
    throw InfeasibleError(problem("lost_links", '"' + link + '"',
                                  "the job stops: " + text(from) + " reaches " + text(to) + " over this link and no other way",
                                  "make it slow instead, or plan without the device"));
  }

 private:
  std::string text(DeviceId d) const {
    return "device " + std::to_string(d.value() % devices_per_node()) + " of node " + std::to_string(node_of(d));
  }

  void slow_down(const SlowDevice& slow) {
    for (const DeviceId d : found(slow)) speeds_.try_emplace(d, 1).first->second *= slow.factor;
  }

  std::vector<DeviceId> found(const SlowDevice& slow) {
    const std::int64_t ranks = devices() * ranks_per_device(), nodes = (devices() - 1) / devices_per_node() + 1;
    const auto refuse = [&](const std::string& what, std::int64_t value, const std::string& whose, std::int64_t count) {
      problems_.push_back(problem("slow_devices", what + " " + std::to_string(value), whose + " no such " + what,
                                  "use 0 to " + std::to_string(count - 1)));
      return std::vector<DeviceId>();
    };
    if (slow.rank >= ranks) return refuse("rank", slow.rank, "the cluster has", ranks);
    if (slow.rank >= 0) return {device_of(Rank(static_cast<std::int32_t>(slow.rank)))};
    if (slow.node >= nodes) return refuse("node", slow.node, "the cluster has", nodes);
    const std::int64_t here = std::min(devices_per_node(), devices() - slow.node * devices_per_node());
    if (slow.device >= here) return refuse("device", slow.device, "the node has", here);
    std::vector<DeviceId> out;
    for (std::int64_t d = 0; d < here; ++d)
      if (slow.device < 0 || slow.device == d) out.emplace_back(static_cast<std::int32_t>(slow.node * devices_per_node() + d));
    return out;
  }

  Route named(const std::string& field, const std::string& name) {
    Route out = links_named(other(), name);
    if (out.empty())
      problems_.push_back(problem(field, '"' + name + '"', "the cluster has no such link",
                                  "there are " + list_text(kinds_of_links(other())) + "; \"A <-> B\" is both ways, * stands for a numeral"));
    return out;
  }

  bool whole(const Route& way) const {
    return std::none_of(way.begin(), way.end(), [&](std::int32_t l) { return lost_.contains(l); });
  }

  /// Devices that may forward traffic of `end`, itself first: those of its node if devices forward, or if NCCL would (PXN: over
  /// the node's switch to another device and out of its NIC).
  std::vector<DeviceId> helpers(DeviceId end) const {
    std::vector<DeviceId> out{end};
    if (scale_up() != ScaleUp::crossbar && scale_up() != ScaleUp::cube_mesh) return out;
    const std::int64_t first = node_of(end) * devices_per_node(), last = std::min(first + devices_per_node(), devices());
    for (std::int64_t d = first; d < last; ++d)
      if (d != end.value()) out.emplace_back(static_cast<std::int32_t>(d));
    return out;
  }

  /// The best way without lost links through at most one other device at either end: fewest links between the nodes (on one rail),
  /// then fewest in all, then least latency, then the nearest devices.
  std::optional<Route> detour(DeviceId from, DeviceId to) const {
    std::optional<Route> best;
    std::tuple<std::size_t, std::size_t, Duration, std::int32_t> least;
    const bool inside = node_of(from) == node_of(to);
    for (const DeviceId out : helpers(from))
      for (const DeviceId in : inside ? std::vector{to} : helpers(to)) {
        Route way = other().route(from, out);
        const Route between = other().route(out, in), last = other().route(in, to);
        way.insert(way.end(), between.begin(), between.end());
        way.insert(way.end(), last.begin(), last.end());
        if (!whole(way)) continue;
        const std::tuple rank{between.size(), way.size(), latency(way),
                              std::abs(out.value() - from.value()) + std::abs(in.value() - to.value())};
        if (!best || rank < least) best = std::move(way), least = rank;
      }
    return best;
  }

  Duration latency(const Route& way) const {
    Duration sum;
    for (const std::int32_t l : way) sum += link(l).latency;
    return sum;
  }

  std::unordered_map<std::int32_t, Bandwidth> slowed_;
  std::map<DeviceId, double> speeds_;
  std::set<std::int32_t> lost_;
  std::vector<Problem> problems_;
};

}  // namespace

std::unique_ptr<const Topology> perturbed(const Topology& machine, const Perturbation& perturbation) {
  return std::make_unique<Perturbed>(machine, perturbation);
}

}  // namespace tandem
