#include "sim/network/refinement.hpp"

#include <algorithm>
#include <numeric>

namespace tandem::sim {

using namespace colour;

namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

/// Members of a class whose neighbours have the same classes.
struct Group {
  std::uint32_t cls, members = 0;
  Hash sees;
};

/// Groups by class and hash: an open-addressed table of group numbers. It grows with the groups, because millions of members are
/// often in a few.
class GroupTable {
 public:
  /// Counts a member; returns its group's number.
  std::uint32_t count(std::uint32_t cls, const Hash& sees) {
    if (2 * groups_.size() >= table_.size()) grow();
    std::uint32_t& g = table_[place(cls, sees)];
    if (g == kNone) {
      g = static_cast<std::uint32_t>(groups_.size());
      groups_.push_back({cls, 0, sees});
    }
    ++groups_[g].members;
    return g;
  }
  const std::vector<Group>& groups() const { return groups_; }

 private:
  std::size_t place(std::uint32_t cls, const Hash& sees) const {
    std::size_t at = scramble(sees.a ^ (cls * 0x9e3779b97f4a7c15)) & (table_.size() - 1);
    const auto other = [&](const Group& g) { return g.cls != cls || g.sees != sees; };
    while (table_[at] != kNone && other(groups_[table_[at]])) at = (at + 1) & (table_.size() - 1);
    return at;
  }

  void grow() {
    table_.assign(2 * table_.size(), kNone);
    for (std::uint32_t g = 0; g < groups_.size(); ++g) table_[place(groups_[g].cls, groups_[g].sees)] = g;
  }

  std::vector<Group> groups_;
  std::vector<std::uint32_t> table_ = std::vector<std::uint32_t>(64, kNone);
};

}  // namespace

SplitClasses::SplitClasses(std::vector<std::uint32_t> of)
    : of_(std::move(of)), sizes_(of_.empty() ? 0 : *std::max_element(of_.begin(), of_.end()) + 1), seen_(sizes_.size()),
      fullest_(sizes_.size(), kNone) {
  for (const std::uint32_t c : of_) ++sizes_[c];
}

/// A class's number stays with the members whose hash has not changed. If there are none, it stays with the largest group.
template <class Sees>
std::vector<Renamed> SplitClasses::split(const std::vector<std::uint32_t>& members, const Sees& sees) {
  GroupTable table;
  std::vector<std::uint32_t> group_of;
  group_of.reserve(members.size());
  for (const std::uint32_t member : members) group_of.push_back(table.count(of_[member], sees(member)));
  const std::vector<Group>& groups = table.groups();
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
  for (std::size_t i = 0; i < members.size(); ++i)
    if (std::uint32_t& cls = of_[members[i]]; cls != name[group_of[i]])
      renamed.push_back({members[i], std::exchange(cls, name[group_of[i]])});
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

void MemberSet::add_all() {
  is_.assign(is_.size(), true);
  list_.resize(is_.size());
  std::iota(list_.begin(), list_.end(), 0U);
}

std::vector<std::uint32_t> MemberSet::take() {
  for (const std::uint32_t member : list_) is_[member] = false;
  return std::exchange(list_, {});
}

Refinement::Refinement(const TransferMap& transfer_map, std::vector<std::uint32_t> ranks, std::vector<std::uint32_t> transfers)
    : transfer_map_(transfer_map),
      ranks_(std::move(ranks)),
      transfers_(std::move(transfers)),
      links_(transfer_map.links.kind_of()),
      ranks_touched_(ranks_.of().size()),
      transfers_touched_(transfers_.of().size()),
      links_touched_(links_.of().size()),
      flows_(links_.of().size(), Hash{0, 0}) {}

/// Classes of ranks and links follow from those of transfers, so it ends once no class of transfers is split.
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
  // Split by members first: on regular machines links then see the final classes of their flows in the first round.
  transfers_.split(transfers_touched_.take(), [&](std::uint32_t t) { return members_of(t); });
  transfers_touched_.add_all();
  for (std::uint32_t t = 0; t < transfers_.of().size(); ++t) count_flows(t, transfers_.of()[t], true);
}

void Refinement::split_ranks_and_links() {
  for (const Renamed& r : ranks_.split(ranks_touched_.take(), [&](std::uint32_t rank) { return seen_by_rank(rank); }))
    for (const auto& transfers : transfer_map_.transfer_of)
      if (transfers[r.member] >= 0) transfers_touched_.add(static_cast<std::size_t>(transfers[r.member]));
  const std::vector<Renamed> links = links_.split(links_touched_.take(), [&](std::uint32_t l) { return flows_[l]; });
  if (links.empty() || transfers_touched_.all()) return;
  find_crossings();
  for (const Renamed& l : links)
    for (std::uint32_t c = first_[l.member]; c < first_[l.member + 1]; ++c) transfers_touched_.add(crossing_[c]);
}

/// Returns false if no class was split.
bool Refinement::split_transfers() {
  const auto sees = [&](std::uint32_t t) { return seen_by_transfer(t); };
  const std::vector<Renamed> renamed = transfers_.split(transfers_touched_.take(), sees);
  for (const auto& [t, before] : renamed) {
    count_flows(t, before, false);
    count_flows(t, transfers_.of()[t], true);
    for (std::size_t m = 0; m < transfer_map_.members(t); ++m) ranks_touched_.add(transfer_map_.member(t, m));
    transfer_map_.each_use(t, [&](std::size_t, const LinkUse& use) { links_touched_.add(use.link); });
  }
  return !renamed.empty();
}

/// Lists the transfers that cross each link; only needed if links differ after the first round.
void Refinement::find_crossings() {
  if (!first_.empty()) return;
  first_.assign(links_.of().size() + 1, 0);
  const auto each_use = [&](auto&& what) {
    for (std::uint32_t t = 0; t < transfers_.of().size(); ++t)
      transfer_map_.each_use(t, [&](std::size_t, const LinkUse& use) { what(t, use.link); });
  };
  each_use([&](std::uint32_t, std::size_t link) { ++first_[link]; });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  crossing_.resize(first_.back());
  each_use([&](std::uint32_t t, std::size_t link) { crossing_[--first_[link]] = t; });
}

/// Adds a transfer's flows to its links' hash sums, or subtracts them. The sums do not depend on an order.
void Refinement::count_flows(std::uint32_t transfer, std::uint32_t cls, bool crosses) {
  transfer_map_.each_use(transfer, [&](std::size_t u, const LinkUse& use) {
    Hash item;
    then(item, both(cls, u));
    then(item, static_cast<std::uint64_t>(use.flows));
    if (crosses) gather(flows_[use.link], item);
    else take_off(flows_[use.link], item);
  });
}

/// Hash of the classes of a rank's transfers, by port.
Hash Refinement::seen_by_rank(std::uint32_t rank) const {
  Hash sees;
  for (const auto& transfers : transfer_map_.transfer_of)
    then(sees, transfers[rank] < 0 ? ~0ULL : transfers_.of()[static_cast<std::size_t>(transfers[rank])]);
  return sees;
}

/// Hash of the classes of a transfer's members; their order counts only in a send.
Hash Refinement::members_of(std::uint32_t t) const {
  const bool directed = transfer_map_.pattern(t).directed;
  Hash members{0, 0};
  for (std::size_t m = 0; m < transfer_map_.members(t); ++m) {
    Hash item;
    then(item, both(ranks_.of()[transfer_map_.member(t, m)], directed ? m : 0));
    gather(members, item);
  }
  return members;
}

/// Hash of the classes of a transfer's members and, use by use, of the links that it crosses.
Hash Refinement::seen_by_transfer(std::uint32_t t) const {
  Hash links{0, 0};
  transfer_map_.each_use(t, [&](std::size_t u, const LinkUse& use) {
    Hash item;
    then(item, both(links_.of()[use.link], static_cast<std::uint64_t>(use.flows)));
    then(item, u);
    gather(links, item);
  });
  Hash sees;
  then_hash(sees, members_of(t));
  then_hash(sees, links);
  return sees;
}

}  // namespace tandem::sim
