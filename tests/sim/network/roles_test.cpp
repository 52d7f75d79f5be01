// Colour refinement against one that looks at every member in every round and compares what it sees item by item.

#include "sim/network/roles.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

/// A ring of ranks with a link to each neighbour, cut open at a random place or not, and some groups across it.
TransferMap random_map(std::mt19937& random, std::size_t ranks) {
  TransferMap map;
  map.links.add({7, {}}, ranks);
  const bool cut = random() % 2 == 0;
  map.transfer_of.assign(3, std::vector<std::int32_t>(ranks, -1));
  const auto add = [&](std::uint32_t port, std::vector<std::size_t> members, std::size_t link, bool directed) {
    const auto index = static_cast<std::int32_t>(map.transfers.size());
    Transfer t;
    t.port = port, t.directed = directed;
    t.uses = {{LinkUse{static_cast<std::uint32_t>(link), static_cast<std::int32_t>(1 + random() % 100 / 97)}}};
    for (std::size_t m = 0; m < members.size(); ++m) {
      t.members.emplace_back(static_cast<std::int32_t>(members[m]));
      map.transfer_of[port + (directed ? m : 0)][members[m]] = index;
    }
    map.transfers.push_back({static_cast<std::uint32_t>(map.patterns.size()), 0});
    map.patterns.push_back({t, {}});
  };
  for (std::size_t r = 0; r < ranks; ++r)
    if (!cut || r + 1 < ranks) add(0, {r, (r + 1) % ranks}, r, true);
  const std::size_t size = 1 + random() % 4;
  for (std::size_t r = 0; r + size <= ranks; r += size) {
    std::vector<std::size_t> members;
    for (std::size_t m = 0; m < size; ++m) members.push_back(r + m);
    add(2, members, r, false);
  }
  return map;
}

using Seen = std::vector<std::vector<std::int64_t>>;

/// Numbered by first occurrence.
std::vector<std::uint32_t> numbered(const std::vector<Seen>& seen) {
  std::map<Seen, std::uint32_t> known;
  std::vector<std::uint32_t> out;
  for (const Seen& s : seen) out.push_back(known.try_emplace(s, static_cast<std::uint32_t>(known.size())).first->second);
  return out;
}

struct Plain {
  std::vector<std::uint32_t> ranks, transfers, links;
};

/// Until nothing changes: each class and, sorted, all that its member touches.
Plain plain_refinement(const TransferMap& map, std::size_t ranks) {
  Plain p{std::vector<std::uint32_t>(ranks), {}, std::vector<std::uint32_t>(map.links.size())};
  for (const TransferPattern& t : map.patterns) p.transfers.push_back(t.transfer.port);
  for (bool changed = true; changed;) {
    std::vector<Seen> of_ranks, of_links(map.links.size()), of_transfers;
    for (std::size_t r = 0; r < ranks; ++r) {
      of_ranks.push_back({{p.ranks[r]}});
      for (const auto& port : map.transfer_of)
        of_ranks.back().push_back({port[r] < 0 ? -1 : p.transfers[static_cast<std::size_t>(port[r])]});
    }
    for (std::size_t t = 0; t < map.transfers.size(); ++t) {
      const Transfer& transfer = map.pattern(t);
      Seen members;
      for (std::size_t m = 0; m < transfer.members.size(); ++m)
        members.push_back({p.ranks[transfer.members[m].index()], transfer.directed ? static_cast<std::int64_t>(m) : 0});
      std::sort(members.begin(), members.end());
      const LinkUse use = transfer.uses[0][0];
      members.push_back({p.transfers[t], p.links[use.link], use.flows});
      of_transfers.push_back(members);
      of_links[use.link].push_back({p.transfers[t], use.flows});
    }
    for (std::size_t l = 0; l < of_links.size(); ++l) {
      std::sort(of_links[l].begin(), of_links[l].end());
      of_links[l].push_back({p.links[l]});
    }
    Plain next{numbered(of_ranks), numbered(of_transfers), numbered(of_links)};
    changed = next.ranks != p.ranks || next.transfers != p.transfers || next.links != p.links;
    p = std::move(next);
  }
  return p;
}

}  // namespace

TEST_CASE("Roles, transfers and links are folded as by a refinement that looks at all of them in every round") {
  std::mt19937 random(77);
  std::size_t folded = 0, split = 0;
  for (int i = 0; i < 200; ++i) {
    const std::size_t ranks = 2 + random() % 40;
    const TransferMap map = random_map(random, ranks);
    const Folding folding = fold(map, std::vector<std::uint64_t>(ranks, 5));
    const Plain expected = plain_refinement(map, ranks);
    INFO("map " << i << " of " << ranks << " ranks");
    REQUIRE(folding.ranks.of == expected.ranks);
    REQUIRE(folding.transfers.of == expected.transfers);
    REQUIRE(folding.links.of == expected.links);
    for (std::size_t c = 0; c < folding.ranks.size(); ++c) REQUIRE(folding.ranks.of[folding.ranks.first[c]] == c);
    folded += folding.ranks.size() < ranks;
    split += folding.ranks.size() > 4;
  }
  CHECK(folded > 10);
  CHECK(split > 20);
}
