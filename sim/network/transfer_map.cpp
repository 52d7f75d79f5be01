#include "sim/network/transfer_map.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "sim/network/colour_hash.hpp"
#include "sim/network/transfer_planner.hpp"

namespace tandem::sim {
namespace {

constexpr std::int32_t kNoTransfer = -1;

/// Index of a node's link: the topology's links come first, then processors, then nodes.
std::size_t node_link(const Topology& topology, DeviceId d) {
  return static_cast<std::size_t>(topology.link_count() + topology.devices() + topology.node_of(d));
}

/// Which messages each stage sends (or joins in) and receives, by port.
struct Needs {
  explicit Needs(const Communications& c) : by_port(2 * c.ports.size()) {}
  std::vector<std::vector<std::uint32_t>> by_port;  ///< 2 * port + receiver: ascending messages
};

Needs needs_of(const Communications& communications, const std::vector<std::uint32_t>& templates) {
  Needs needs(communications);
  for (const std::uint32_t t : templates)
    for (std::uint32_t slot = communications.first_slot[t]; slot < communications.first_slot[t + 1]; ++slot) {
      const auto& entry = communications.entries[slot];
      if (entry.message < 0) continue;
      const auto message = static_cast<std::uint32_t>(entry.message);
      needs.by_port[2 * communications.messages[message].port + entry.receiver].push_back(message);
    }
  for (auto& list : needs.by_port) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return needs;
}

struct HashOfKey {
  std::size_t operator()(const std::vector<std::int32_t>& key) const {
    colour::Hash h;
    for (const std::int32_t value : key) colour::then(h, static_cast<std::uint64_t>(value));
    return h.a;
  }
};

class TransferMapper {
 public:
  TransferMapper(const Setup& setup, const Communications& communications, TransferMap& out)
      : setup_(setup), communications_(communications), out_(out) {
    for (const auto& templates : communications.templates) needs_.push_back(needs_of(communications, templates));
    const auto world = static_cast<std::size_t>(setup.mesh.world_size());
    out_.transfer_of.assign(2 * communications.ports.size(), std::vector<std::int32_t>(world, kNoTransfer));
    stages_.reserve(world);
    for (std::int32_t r = 0; r < setup.mesh.world_size(); ++r) stages_.push_back(setup.stage_of(Rank(r)).index());
  }

  void map_all() {
    for (std::uint32_t p = 0; p < communications_.ports.size(); ++p)
      if (communications_.ports[p].kind != Port::Kind::core)
        for (std::int32_t r = 0; r < setup_.mesh.world_size(); ++r) plug_in(p, Rank(r));
  }

  void map_cores() {
    out_.shared_cores = true;
    const auto devices = static_cast<std::size_t>(setup_.topology.devices());
    const auto nodes = (devices - 1) / static_cast<std::size_t>(setup_.topology.devices_per_node()) + 1;
    out_.links.add({kCoreRate, {}}, devices);
    out_.links.add({kCoreRate, node_capacity()}, nodes);
    for (std::int32_t r = 0; r < setup_.mesh.world_size(); ++r) {
      const DeviceId d = setup_.topology.device_of(Rank(r));
      Transfer transfer{communications_.core_port, {Rank(r)}, false, {}, {}};
      transfer.uses.push_back({{static_cast<std::uint32_t>(core_link(setup_.topology, d)), 1},
                               {static_cast<std::uint32_t>(node_link(setup_.topology, d)), 1}});
      connect(2 * communications_.core_port, Rank(r));
      out_.transfers.push_back(new_pattern(std::move(transfer), 0));
    }
  }

 private:
  /// By number of computing ranks of a node: the rate of all of them, each slowed down by the others' use of memory.
  std::vector<Rate> node_capacity() const {
    std::vector<Rate> by_users;
    const std::int64_t cores = std::min(setup_.topology.devices_per_node(), setup_.topology.devices());
    for (std::int64_t k = 1; k <= cores; ++k)
      by_users.push_back(std::llround(static_cast<double>(k * kCoreRate) / setup_.cost.slowdown(k)));
    return by_users;
  }

  void connect(std::size_t end, Rank r) { out_.transfer_of[end][r.index()] = static_cast<std::int32_t>(out_.transfers.size()); }

  void plug_in(std::uint32_t p, Rank r) {
    const Port& port = communications_.ports[p];
    if (out_.transfer_of[2 * p][r.index()] != kNoTransfer || needs_[stages_[r.index()]].by_port[2 * p].empty()) return;
    std::vector<Rank> members;
    if (port.kind == Port::Kind::collective) {
      members = setup_.mesh.members(port.group, r);
      for (const Rank member : members) connect(2 * p, member);
    } else {
      members = {r, setup_.mesh.stage_neighbour(r, port.offset)};
      connect(2 * p, r);
      connect(2 * p + 1, members[1]);
    }
    const std::vector<std::uint32_t> wanted = messages(p, members);
    out_.transfers.push_back(out_.period == 0 ? new_pattern(planned(p, std::move(members), wanted), 0)
                                              : moved(p, std::move(members), wanted));
  }

  Transfer planned(std::uint32_t p, std::vector<Rank> members, const std::vector<std::uint32_t>& wanted) {
    Transfer transfer{p, std::move(members), communications_.ports[p].kind == Port::Kind::send, {}, {}};
    TransferPlanner planner(setup_, transfer, out_.links);
    for (const std::uint32_t m : wanted) {
      transfer.plans.push_back(planner.make_plan(m, communications_.messages[m]));
      if (planner.slow()) keep_slower(m, *planner.slow());
    }
    return transfer;
  }

  MovedTransfer new_pattern(Transfer transfer, std::int32_t periods) {
    out_.patterns.push_back({std::move(transfer), {}});
    return {static_cast<std::uint32_t>(out_.patterns.size() - 1), periods};
  }

  /// Finds or makes the pattern: the same members shifted so that the first lies in the first period.
  MovedTransfer moved(std::uint32_t p, std::vector<Rank> members, const std::vector<std::uint32_t>& wanted) {
    const std::int32_t periods = std::min_element(members.begin(), members.end())->value() / out_.period;
    std::vector<std::int32_t> key{static_cast<std::int32_t>(p), static_cast<std::int32_t>(members.size())};
    for (Rank& r : members) key.push_back((r = Rank(r.value() - periods * out_.period)).value());
    key.insert(key.end(), wanted.begin(), wanted.end());
    const auto [known, fresh] = pattern_of_.try_emplace(std::move(key), static_cast<std::uint32_t>(out_.patterns.size()));
    if (!fresh) return {known->second, periods};
    const MovedTransfer out = new_pattern(planned(p, std::move(members), wanted), periods);
    for (const std::vector<LinkUse>& uses : out_.patterns.back().transfer.uses) {
      std::vector<std::int32_t>& strides = out_.patterns.back().strides.emplace_back();
      for (const LinkUse& use : uses) strides.push_back(setup_.topology.stride(static_cast<std::int32_t>(use.link)));
    }
    return out;
  }

  void keep_slower(std::uint32_t message, const SlowChoice& choice) {
    SlowChoice& worst = out_.slow_choices.try_emplace(message, choice).first->second;
    if (choice.lost_s() > worst.lost_s()) worst = choice;
  }

  /// The messages that any member sends over the transfer, ascending.
  std::vector<std::uint32_t> messages(std::uint32_t p, const std::vector<Rank>& members) const {
    const std::size_t first = stages_[members[0].index()];
    const auto other_stage = [&](Rank r) { return stages_[r.index()] != first; };
    const auto other = std::find_if(members.begin(), members.end(), other_stage);
    if (other == members.end() || communications_.ports[p].kind == Port::Kind::send) return needs_[first].by_port[2 * p];
    std::set<std::uint32_t> all;
    for (const Rank r : members) {
      const auto& list = needs_[stages_[r.index()]].by_port[2 * p];
      all.insert(list.begin(), list.end());
    }
    return {all.begin(), all.end()};
  }

  const Setup& setup_;
  const Communications& communications_;
  TransferMap& out_;
  std::vector<Needs> needs_;
  std::vector<std::size_t> stages_;
  std::unordered_map<std::vector<std::int32_t>, std::uint32_t, HashOfKey> pattern_of_;  ///< by port, members and messages
};

bool cores_are_shared(const Setup& setup) {
  const std::int64_t cores = std::min(setup.topology.devices_per_node(), setup.topology.devices());
  return setup.topology.ranks_per_device() > 1 || setup.cost.slowdown(cores) > 1;
}

}  // namespace

LinkCapacities capacities(const Topology& topology) {
  LinkCapacities links;
  links.reserve(static_cast<std::size_t>(topology.link_count()));
  for (std::int32_t l = 0; l < topology.link_count(); ++l) links.add({rate_of(topology.link(l).bandwidth), {}});
  return links;
}

Transfer plan_alone(const Setup& setup, const Message& message, std::vector<Rank> members, const LinkCapacities& links) {
  Transfer transfer{message.port, std::move(members), std::holds_alternative<Send>(message.op), {}, {}};
  transfer.plans.push_back(TransferPlanner(setup, transfer, links).make_plan(0, message));
  return transfer;
}

TransferMap make_transfer_map(const Setup& setup, const Communications& communications) {
  TransferMap out;
  out.links = capacities(setup.topology);
  TransferMapper mapper(setup, communications, out);
  if (cores_are_shared(setup)) mapper.map_cores();
  else if (setup.replay == nullptr && setup.topology.period() < setup.topology.devices())
    out.period = static_cast<std::int32_t>(setup.topology.period());
  mapper.map_all();
  return out;
}

}  // namespace tandem::sim
