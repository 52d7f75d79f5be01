#include "sim/closed_form/link_times.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "sim/network/transfer_map.hpp"

namespace tandem::sim {
namespace {

std::vector<Rank> ranks_of(const Members& members) {
  std::vector<Rank> ranks;
  for (std::int64_t i = 0; i < members.count; ++i)
    for (std::int64_t j = 0; j < members.inner; ++j)
      ranks.push_back(Rank(static_cast<std::int32_t>(members.first + i * members.stride + j)));
  return ranks;
}

Transfer transfer_of(const Topology& topology, const CostModel& cost, const LinkCapacities& links, const Op& op,
                     const Members& members) {
  static const TaskGraph no_graph;
  static const Mesh no_mesh({1, 1, 1, 1, 1}, "tp-cp-ep-dp-pp");
  return plan_alone({no_graph, no_mesh, topology, cost}, Message{0, op, -1}, ranks_of(members), links);
}

/// Adds another transfer's flows on the links that the first one crosses.
void add_flows(Transfer& transfer, const Transfer& other) {
  for (std::size_t u = 0; u < std::min(transfer.uses.size(), other.uses.size()); ++u)
    for (LinkUse& use : transfer.uses[u])
      for (const LinkUse& more : other.uses[u])
        if (more.link == use.link) use.flows += more.flows;
}

}  // namespace

LinkTimes::LinkTimes(const Topology& topology, const CostModel& cost)
    : topology_(topology), cost_(cost), links_(capacities(topology)) {}

/// Groups at the same places in their nodes have the same key.
void LinkTimes::write_key(const Op& op, const Members& m) {
  const std::int64_t node = topology_.devices_per_node() * topology_.ranks_per_device();
  key_.assign({static_cast<std::int64_t>(op.index()), m.first % node, m.stride, m.count, m.inner, m.groups});
  if (const auto* c = std::get_if<Collective>(&op))
    key_.insert(key_.end(), {static_cast<std::int64_t>(c->kind), c->elements, static_cast<std::int64_t>(c->dtype)});
  else if (const auto* s = std::get_if<Send>(&op))
    key_.insert(key_.end(), {s->elements, static_cast<std::int64_t>(s->dtype)});
}

std::int64_t LinkTimes::alone(const Op& op, const Members& members) {
  if (members.size() < 2) return 0;
  write_key(op, members);
  if (const auto known = alone_.find(key_); known != alone_.end()) return known->second;
  const Key key = key_;
  Transfer transfer = transfer_of(topology_, cost_, links_, op, members);
  for (std::int64_t g = 1; g < members.groups; ++g) {
    Members other = members;
    other.first += g;
    add_flows(transfer, transfer_of(topology_, cost_, links_, op, other));
  }
  const TransferPlan& plan = transfer.plans.front();
  const std::int64_t ps = (time_alone(plan.chains, transfer.uses, links_) + plan.tail).ps();
  return alone_.emplace(key, ps).first->second;
}

std::vector<std::uint32_t> LinkTimes::links_of(const Op& op, const Members& members) const {
  std::vector<std::uint32_t> links;
  if (members.size() < 2) return links;
  for (std::int64_t g = 0; g < members.groups; ++g) {
    Members one = members;
    one.first += g;
    const Transfer transfer = transfer_of(topology_, cost_, links_, op, one);
    for (const auto& chain : transfer.plans.front().chains)
      for (const Segment& s : chain)
        for (const LinkUse& use : transfer.uses[s.uses])
          if (links_[use.link].rate != kUnlimited) links.push_back(use.link);
  }
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

bool LinkTimes::crowded(const Op& op, const Members& members, std::int64_t times, std::int64_t by) {
  if (members.size() < 2 || times < 2) return false;
  write_key(op, members);
  key_.insert(key_.end(), {times, by});
  if (const auto known = shared_.find(key_); known != shared_.end()) return known->second;
  const Key key = key_;
  std::vector<bool> used(links_.size(), false);
  bool crowded = false;
  for (std::int64_t n = 0; n < times && !crowded; ++n) {
    Members others = members;
    others.first += n * by;
    for (const std::uint32_t link : links_of(op, others)) {
      crowded = crowded || used[link];
      used[link] = true;
    }
  }
  return shared_.emplace(key, crowded).first->second;
}

bool LinkTimes::meet(const Op& a, const Members& of_a, const Op& b, const Members& of_b) {
  write_key(a, of_a);
  Key key = key_;
  write_key(b, of_b);
  key.insert(key.end(), key_.begin(), key_.end());
  if (const auto known = shared_.find(key); known != shared_.end()) return known->second;
  const auto x = links_of(a, of_a), y = links_of(b, of_b);
  std::vector<std::uint32_t> both;
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
  return shared_.emplace(key, !both.empty()).first->second;
}

}  // namespace tandem::sim
