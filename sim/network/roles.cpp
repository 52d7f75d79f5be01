#include "sim/network/roles.hpp"

#include <bit>
#include <compare>

namespace tandem::sim {
namespace {

/// 128 bits of hash: with a million members the chance of one false merge is below 1e-26.
struct Hash {
  std::uint64_t a = 0x9e3779b97f4a7c15, b = 0xd1b54a32d192ed03;
  auto operator<=>(const Hash&) const = default;
};

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Order matters.
void then(Hash& h, std::uint64_t value) {
  h.a = scramble(h.a ^ value) + 0x9e3779b97f4a7c15;
  h.b = scramble(h.b + value * 0xff51afd7ed558ccd) + 0xc4ceb9fe1a85ec53;
}

/// Order does not matter. Items are scrambled already: they come from `then`.
void gather(Hash& sum, const Hash& item) {
  sum.a += item.a;
  sum.b += item.b;
}

/// Two small numbers as one.
std::uint64_t both(std::uint64_t a, std::uint64_t b) { return a << 32 | (b & UINT32_MAX); }

void then_hash(Hash& h, const Hash& other) {
  then(h, other.a);
  then(h, other.b);
}

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

class Refiner {
 public:
  Refiner(const TransferMap& transfer_map, const std::vector<std::uint64_t>& colours) : transfer_map_(transfer_map) {
    std::vector<Hash> ranks(colours.size()), transfers, links;
    for (std::size_t r = 0; r < ranks.size(); ++r) then(ranks[r], colours[r]);
    for (const Transfer& w : transfer_map.transfers) transfers.push_back(initial(w));
    for (const Capacity& l : transfer_map.links) links.push_back(initial(l));
    folding_ = {classify(ranks), classify(transfers), classify(links)};
  }

  /// Ranks and links follow from transfers: once these stay as they are, so do those.
  Folding run() {
    for (std::size_t before = 0; before != folding_.transfers.size();) {
      before = folding_.transfers.size();
      folding_.ranks = classify(rank_hashes());
      folding_.links = classify(link_hashes());
      folding_.transfers = classify(transfer_hashes());
    }
    return std::move(folding_);
  }

 private:

  static std::vector<Hash> start(const Classes& classes) {
    std::vector<Hash> hashes(classes.of.size());
    for (std::size_t i = 0; i < hashes.size(); ++i) then(hashes[i], classes.of[i]);
    return hashes;
  }

  /// A transfer sees its members (in order only where one sends to the other) and, use by use, the links it crosses.
  std::vector<Hash> transfer_hashes() const {
    std::vector<Hash> hashes = start(folding_.transfers);
    for (std::size_t w = 0; w < hashes.size(); ++w) {
      const Transfer& transfer = transfer_map_.transfers[w];
      Hash members{0, 0};
      for (std::size_t m = 0; m < transfer.members.size(); ++m) {
        Hash item;
        then(item, both(folding_.ranks.of[transfer.members[m].index()], transfer.directed ? m : 0));
        gather(members, item);
      }
      then_hash(hashes[w], members);
      for (const auto& uses : transfer.uses) then_hash(hashes[w], links_of(uses));
    }
    return hashes;
  }

  Hash links_of(const std::vector<LinkUse>& uses) const {
    Hash sum{0, 0};
    for (const LinkUse& use : uses) {
      Hash item;
      then(item, both(folding_.links.of[use.link], static_cast<std::uint64_t>(use.flows)));
      gather(sum, item);
    }
    return sum;
  }

  /// A rank sees the transfer behind each of its ports.
  std::vector<Hash> rank_hashes() const {
    std::vector<Hash> hashes = start(folding_.ranks);
    for (const auto& transfers : transfer_map_.transfer_of)
      for (std::size_t r = 0; r < hashes.size(); ++r)
        then(hashes[r], transfers[r] < 0 ? ~0ULL : folding_.transfers.of[static_cast<std::size_t>(transfers[r])]);
    return hashes;
  }

  /// A link sees the flows that cross it.
  std::vector<Hash> link_hashes() const {
    std::vector<Hash> hashes = start(folding_.links), sums(hashes.size(), Hash{0, 0});
    for (std::size_t w = 0; w < transfer_map_.transfers.size(); ++w)
      for (std::size_t u = 0; u < transfer_map_.transfers[w].uses.size(); ++u)
        for (const LinkUse& use : transfer_map_.transfers[w].uses[u]) {
          Hash item;
          then(item, both(folding_.transfers.of[w], u));
          then(item, static_cast<std::uint64_t>(use.flows));
          gather(sums[use.link], item);
        }
    for (std::size_t l = 0; l < hashes.size(); ++l) then_hash(hashes[l], sums[l]);
    return hashes;
  }

  const TransferMap& transfer_map_;
  Folding folding_;
};

}  // namespace

Folding fold(const TransferMap& transfer_map, const std::vector<std::uint64_t>& colours) {
  return Refiner(transfer_map, colours).run();
}

}  // namespace tandem::sim
