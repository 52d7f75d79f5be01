#include "sim/network/refinement.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tandem::sim {

using namespace colour;

namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

using Sights = std::vector<std::pair<std::uint32_t, Hash>>;

/// What each touched member sees.
template <class Sees>
Sights sights_of(Touched& touched, const Sees& sees) {
  const std::vector<std::uint32_t> members = touched.take();
  Sights out;
  out.reserve(members.size());
  for (const std::uint32_t member : members) out.emplace_back(member, sees(member));
  return out;
}

}  // namespace

SplitClasses::SplitClasses(const Classes& classes)
    : of_(classes.of), sizes_(classes.size()), seen_(classes.size()), fullest_(classes.size(), kNone) {
  for (const std::uint32_t c : of_) ++sizes_[c];
}

/// A class's name stays with the members that see what they saw; where there are none, with the most that see the same.
std::vector<Renamed> SplitClasses::split(const Sights& sights) {
  std::vector<Group> groups;
  std::vector<std::uint32_t> group_of, table(std::bit_ceil(2 * sights.size() + 1), kNone);
  group_of.reserve(sights.size());
  for (const auto& [member, sees] : sights) {
    const std::uint32_t cls = of_[member];
    std::size_t at = scramble(sees.a ^ (cls * 0x9e3779b97f4a7c15)) & (table.size() - 1);
    const auto other = [&](const Group& g) { return g.cls != cls || g.sees != sees; };
    while (table[at] != kNone && other(groups[table[at]])) at = (at + 1) & (table.size() - 1);
    if (table[at] == kNone) {
      table[at] = static_cast<std::uint32_t>(groups.size());
      groups.push_back({cls, 0, sees});
    }
    ++groups[table[at]].members;
    group_of.push_back(table[at]);
  }
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const std::uint32_t cls = groups[g].cls;
    seen_[cls] += groups[g].members;
    if (fullest_[cls] == kNone || groups[g].members > groups[fullest_[cls]].members) fullest_[cls] = g;
  }
  std::vector<std::uint32_t> name(groups.size());
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const bool keeps = seen_[groups[g].cls] == sizes_[groups[g].cls] && fullest_[groups[g].cls] == g;
    name[g] = keeps ? groups[g].cls : static_cast<std::uint32_t>(sizes_.size());
    if (!keeps) sizes_.push_back(groups[g].members), seen_.push_back(0), fullest_.push_back(kNone);
  }
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    if (name[g] != groups[g].cls) sizes_[groups[g].cls] -= groups[g].members;
    seen_[groups[g].cls] = 0, fullest_[groups[g].cls] = kNone;
  }
  std::vector<Renamed> renamed;
  for (std::size_t i = 0; i < sights.size(); ++i)
    if (std::uint32_t& cls = of_[sights[i].first]; cls != name[group_of[i]])
      renamed.push_back({sights[i].first, std::exchange(cls, name[group_of[i]])});
  return renamed;
}

Classes SplitClasses::numbered() const {
  Classes out;
  out.of.resize(of_.size());
  std::vector<std::uint32_t> number(sizes_.size(), kNone);
  for (std::uint32_t i = 0; i < of_.size(); ++i) {
    std::uint32_t& n = number[of_[i]];
    if (n == kNone) {
      n = static_cast<std::uint32_t>(out.first.size());
      out.first.push_back(i);
    }
    out.of[i] = n;
  }
  return out;
}

void Touched::add_all() {
  is_.assign(is_.size(), true);
  list_.resize(is_.size());
  std::iota(list_.begin(), list_.end(), 0U);
}

std::vector<std::uint32_t> Touched::take() {
  for (const std::uint32_t member : list_) is_[member] = false;
  return std::exchange(list_, {});
}

Refinement::Refinement(const TransferMap& transfer_map, const Folding& start)
    : transfer_map_(transfer_map),
      ranks_(start.ranks),
      transfers_(start.transfers),
      links_(start.links),
      ranks_touched_(start.ranks.of.size()),
      transfers_touched_(start.transfers.of.size()),
      links_touched_(start.links.of.size()),
      flows_(start.links.of.size(), Hash{0, 0}) {}

/// Ranks and links follow from transfers: once these stay as they are, so do those.
Folding Refinement::run() {
  touch_all();
  do split_ranks_and_links();
  while (split_transfers());
  return {ranks_.numbered(), transfers_.numbered(), links_.numbered()};
}

void Refinement::touch_all() {
  ranks_touched_.add_all();
  links_touched_.add_all();
  transfers_touched_.add_all();
  for (std::uint32_t t = 0; t < transfers_.of().size(); ++t) count_flows(t, transfers_.of()[t], true);
}

void Refinement::split_ranks_and_links() {
  const auto rank_sees = [&](std::uint32_t r) { return seen_by_rank(r); };
  for (const Renamed& r : ranks_.split(sights_of(ranks_touched_, rank_sees)))
    for (const auto& transfers : transfer_map_.transfer_of)
      if (transfers[r.member] >= 0) transfers_touched_.add(static_cast<std::size_t>(transfers[r.member]));
  const std::vector<Renamed> links = links_.split(sights_of(links_touched_, [&](std::uint32_t l) { return flows_[l]; }));
  if (links.empty()) return;
  find_crossings();
  for (const Renamed& l : links)
    for (std::uint32_t c = first_[l.member]; c < first_[l.member + 1]; ++c) transfers_touched_.add(crossing_[c]);
}

/// False when none was split.
bool Refinement::split_transfers() {
  const auto sees = [&](std::uint32_t t) { return seen_by_transfer(t); };
  const std::vector<Renamed> renamed = transfers_.split(sights_of(transfers_touched_, sees));
  for (const auto& [t, before] : renamed) {
    count_flows(t, before, false);
    count_flows(t, transfers_.of()[t], true);
    for (const Rank r : transfer_map_.transfers[t].members) ranks_touched_.add(r.index());
    for (const auto& uses : transfer_map_.transfers[t].uses)
      for (const LinkUse& use : uses) links_touched_.add(use.link);
  }
  return !renamed.empty();
}

/// Which transfers cross each link: asked for only once links differ.
void Refinement::find_crossings() {
  if (!first_.empty()) return;
  first_.assign(links_.of().size() + 1, 0);
  const auto each_use = [&](auto&& what) {
    for (std::uint32_t t = 0; t < transfers_.of().size(); ++t)
      for (const auto& uses : transfer_map_.transfers[t].uses)
        for (const LinkUse& use : uses) what(t, use.link);
  };
  each_use([&](std::uint32_t, std::size_t link) { ++first_[link + 1]; });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  crossing_.resize(first_.back());
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  each_use([&](std::uint32_t t, std::size_t link) { crossing_[next[link]++] = t; });
}

/// A link sees the flows that cross it, in no order: what a transfer adds to the sum can be taken off again.
void Refinement::count_flows(std::uint32_t transfer, std::uint32_t cls, bool crosses) {
  const auto& uses = transfer_map_.transfers[transfer].uses;
  for (std::size_t u = 0; u < uses.size(); ++u)
    for (const LinkUse& use : uses[u]) {
      Hash item;
      then(item, both(cls, u));
      then(item, static_cast<std::uint64_t>(use.flows));
      if (crosses) gather(flows_[use.link], item);
      else take_off(flows_[use.link], item);
    }
}

/// A rank sees the transfer behind each of its ports.
Hash Refinement::seen_by_rank(std::uint32_t rank) const {
  Hash sees;
  for (const auto& transfers : transfer_map_.transfer_of)
    then(sees, transfers[rank] < 0 ? ~0ULL : transfers_.of()[static_cast<std::size_t>(transfers[rank])]);
  return sees;
}

/// A transfer sees its members (in order only where one sends to the other) and, use by use, the links it crosses.
Hash Refinement::seen_by_transfer(std::uint32_t t) const {
  const Transfer& transfer = transfer_map_.transfers[t];
  Hash sees, members{0, 0};
  for (std::size_t m = 0; m < transfer.members.size(); ++m) {
    Hash item;
    then(item, both(ranks_.of()[transfer.members[m].index()], transfer.directed ? m : 0));
    gather(members, item);
  }
  then_hash(sees, members);
  for (const auto& uses : transfer.uses) {
    Hash links{0, 0};
    for (const LinkUse& use : uses) {
      Hash item;
      then(item, both(links_.of()[use.link], static_cast<std::uint64_t>(use.flows)));
      gather(links, item);
    }
    then_hash(sees, links);
  }
  return sees;
}

}  // namespace tandem::sim
