#include "sim/network/roles.hpp"

#include <bit>

#include "sim/network/colour_hash.hpp"
#include "sim/network/refinement.hpp"

namespace tandem::sim {

using namespace colour;

namespace {

/// Classes of equal hashes, numbered by first occurrence: an open-addressed table of class numbers.
Classes classify(const std::vector<Hash>& hashes) {
  std::vector<std::uint32_t> table(std::bit_ceil(2 * hashes.size() + 1), UINT32_MAX);
  const std::size_t mask = table.size() - 1;
  Classes classes;
  classes.of.resize(hashes.size());
  for (std::uint32_t i = 0; i < hashes.size(); ++i) {
    std::size_t at = scramble(hashes[i].a) & mask;
    while (table[at] != UINT32_MAX && hashes[classes.first[table[at]]] != hashes[i]) at = (at + 1) & mask;
    if (table[at] == UINT32_MAX) {
      table[at] = static_cast<std::uint32_t>(classes.first.size());
      classes.first.push_back(i);
    }
    classes.of[i] = table[at];
  }
  return classes;
}

void then_work(Hash& h, Work work) {
  then(h, static_cast<std::uint64_t>(work));
  then(h, static_cast<std::uint64_t>(work >> 64));
}

Hash initial(const Transfer& transfer) {
  Hash h;
  then(h, transfer.port);
  then(h, transfer.uses.size());
  for (const TransferPlan& plan : transfer.plans) {
    then(h, plan.message);
    then(h, static_cast<std::uint64_t>(plan.tail.ps()));
    for (const auto& chain : plan.chains) {
      then(h, chain.size());
      for (const Segment& s : chain) {
        then(h, s.uses);
        then_work(h, s.work);
      }
    }
  }
  return h;
}

Hash initial(const Capacity& link) {
  Hash h;
  then(h, static_cast<std::uint64_t>(link.rate));
  for (const Rate r : link.by_users) then(h, static_cast<std::uint64_t>(r));
  return h;
}

}  // namespace

Folding fold(const TransferMap& transfer_map, const std::vector<std::uint64_t>& colours) {
  std::vector<Hash> ranks(colours.size()), transfers, links;
  for (std::size_t r = 0; r < ranks.size(); ++r) then(ranks[r], colours[r]);
  for (const Transfer& t : transfer_map.transfers) transfers.push_back(initial(t));
  for (const Capacity& l : transfer_map.links) links.push_back(initial(l));
  return Refinement(transfer_map, {classify(ranks), classify(transfers), classify(links)}).run();
}

}  // namespace tandem::sim
