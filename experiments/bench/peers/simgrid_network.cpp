// SimGrid (S4U) on the two cases of ../network_bars.cpp: bench_simgrid ring HOSTS | flows. Prints when the last flow ended. Fluid
// flows with max-min sharing only, as in Tandem: no latency, no correction factors for TCP.
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "experiments/bench/flows.hpp"
#include "experiments/bench/peak.hpp"

namespace {

namespace sg = simgrid::s4u;

/// Hosts around a crossbar. Each has a link of `bandwidth` bytes/s in and one out.
std::vector<sg::Host*> make_hosts(int n, double bandwidth) {
  sg::NetZone* zone = sg::create_star_zone("crossbar");
  std::vector<sg::Host*> hosts;
  for (int i = 0; i < n; ++i) {
    const std::string name = std::to_string(i);
    hosts.push_back(zone->create_host(name, 1e9)->seal());
    const sg::Link* link = zone->create_split_duplex_link("link " + name, bandwidth)->set_latency(0)->seal();
    zone->add_route(hosts.back()->get_netpoint(), nullptr, nullptr, nullptr, {{link, sg::LinkInRoute::Direction::UP}}, true);
  }
  zone->seal();
  return hosts;
}

/// One rank of a ring all-reduce. It sends its next message once its last one has left and its predecessor's has arrived.
void ring_rank(int rank, int n) {
  sg::Mailbox* const out = sg::Mailbox::by_name(std::to_string((rank + 1) % n));
  sg::Mailbox* const in = sg::Mailbox::by_name(std::to_string(rank));
  static int token = 0;
  for (int step = 0; step < 2 * (n - 1); ++step) {
    const sg::CommPtr sent = out->put_async(&token, tandem::bench::kRingBytes / static_cast<std::uint64_t>(n));
    in->get<int>();
    sent->wait();
  }
}

void ring(int n) {
  const auto hosts = make_hosts(n, tandem::bench::kRingBandwidth);
  for (int r = 0; r < n; ++r) sg::Actor::create("rank", hosts[static_cast<std::size_t>(r)], ring_rank, r, n);
}

void send_flows(const std::vector<sg::Host*>& hosts, const std::vector<tandem::bench::TimedFlow>& flows) {
  std::vector<sg::CommPtr> sent;
  for (const auto& f : flows) {
    sg::this_actor::sleep_until(f.start);
    sent.push_back(sg::Comm::sendto_async(hosts[static_cast<std::size_t>(f.from)], hosts[static_cast<std::size_t>(f.to)],
                                          static_cast<std::uint64_t>(f.bytes)));
  }
  for (const sg::CommPtr& comm : sent) comm->wait();
}

void desynchronised() {
  const auto hosts = make_hosts(tandem::bench::kFlowHosts, tandem::bench::kFlowBandwidth);
  auto flows = tandem::bench::desynchronised_flows();
  std::sort(flows.begin(), flows.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  sg::Actor::create("sender", hosts.front(), send_flows, hosts, flows);
}

}  // namespace

int main(int argc, char** argv) {
  sg::Engine engine(&argc, argv);
  const std::string what = argc > 1 ? argv[1] : "";
  if (!(what == "ring" && argc == 3) && !(what == "flows" && argc == 2)) {
    std::fprintf(stderr, "usage: bench_simgrid ring HOSTS | flows\n");
    return 2;
  }
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/crosstraffic:no");
  sg::Engine::set_config("contexts/stack-size:16");
  if (what == "ring") ring(std::atoi(argv[2]));
  else desynchronised();
  engine.run();
  int major = 0, minor = 0, patch = 0;
  sg_version_get(&major, &minor, &patch);
  std::printf("  SimGrid %d.%d, simulated %.9f s\n", major, minor, sg::Engine::get_clock());
  std::printf("{\"peak_mb\": %.1f}\n", tandem::bench::peak_megabytes());
  return 0;
}
