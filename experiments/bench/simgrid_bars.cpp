// The flows of `desynchronised` in SimGrid's s4u interface: hosts behind a crossbar, LV08 without its corrections for TCP.
#include <cstdio>

#include "experiments/bench/bars.hpp"
#include "experiments/bench/flows.hpp"

#ifdef TANDEM_SIMGRID
#include <simgrid/s4u.hpp>
#endif

namespace tandem::bench {

#ifdef TANDEM_SIMGRID

int desynchronised_in_simgrid() {
  namespace s4u = simgrid::s4u;
  int argc = 4;
  char name[] = "bench", tcp[] = "--cfg=network/bandwidth-factor:1", latency[] = "--cfg=network/latency-factor:1",
       window[] = "--cfg=network/TCP-gamma:0";
  char* argv[] = {name, tcp, latency, window, nullptr};
  s4u::Engine engine(&argc, argv);
  auto* zone = s4u::create_full_zone("zone");
  std::vector<s4u::Host*> hosts;
  std::vector<const s4u::Link*> up, down;
  for (int h = 0; h < kFlowHosts; ++h) {
    hosts.push_back(zone->create_host("h" + std::to_string(h), 1e9));
    up.push_back(zone->create_link("u" + std::to_string(h), kFlowBandwidth)->seal());
    down.push_back(zone->create_link("d" + std::to_string(h), kFlowBandwidth)->seal());
  }
  for (int a = 0; a < kFlowHosts; ++a)
    for (int b = 0; b < kFlowHosts; ++b)
      if (a != b) zone->add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr, nullptr, {s4u::LinkInRoute(up[a]), s4u::LinkInRoute(down[b])}, false);
  zone->seal();
  for (const TimedFlow& f : desynchronised_flows())
    s4u::Actor::create("flow", hosts[f.from], [f, &hosts] {
      s4u::this_actor::sleep_for(f.start);
      s4u::Comm::sendto(hosts[f.from], hosts[f.to], static_cast<std::uint64_t>(f.bytes));
    });
  engine.run();
  std::printf("  ends at %.6f s\n", s4u::Engine::get_clock());
  return 0;
}

#else

int desynchronised_in_simgrid() {
  std::printf("  SimGrid: not installed (Debian: libsimgrid-dev)\n");
  return 0;
}

#endif

}  // namespace tandem::bench
