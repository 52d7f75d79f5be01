#include "sim/network/roles.hpp"

#include <map>
#include <utility>

#include "sim/network/colour_hash.hpp"
#include "sim/network/refinement.hpp"

namespace tandem::sim {

using namespace colour;

namespace {

/// Numbers keys from 0 by first occurrence; equal keys get equal numbers.
template <class Key>
std::vector<std::uint32_t> numbered(const std::vector<Key>& keys) {
  std::map<Key, std::uint32_t> known;
  std::vector<std::uint32_t> out;
  out.reserve(keys.size());
  for (const Key& key : keys) out.push_back(known.try_emplace(key, static_cast<std::uint32_t>(known.size())).first->second);
  return out;
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

}  // namespace

Folding fold(const TransferMap& transfer_map, const std::vector<std::uint64_t>& colours) {
  std::vector<Hash> hashes;
  hashes.reserve(transfer_map.patterns.size());
  for (const TransferPattern& p : transfer_map.patterns) hashes.push_back(initial(p.transfer));
  const std::vector<std::uint32_t> patterns = numbered(hashes);
  std::vector<std::uint32_t> transfers;
  transfers.reserve(transfer_map.transfers.size());
  for (const MovedTransfer& t : transfer_map.transfers) transfers.push_back(patterns[t.pattern]);
  return Refinement(transfer_map, numbered(colours), std::move(transfers)).run();
}

}  // namespace tandem::sim
