#pragma once
// Colour refinement: splits classes of ranks, transfers and links until all members of a class have the same classes as neighbours.
// A round looks only at neighbours of members that changed class in the round before, so a long chain of changes costs its length.

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/network/colour_hash.hpp"
#include "sim/network/roles.hpp"

namespace tandem::sim {

/// A member whose class has changed, and its class before.
struct Renamed {
  std::uint32_t member, before;
};

/// A partition while it is refined.
class SplitClasses {
 public:
  /// `of`: class of each member, numbered from 0.
  explicit SplitClasses(std::vector<std::uint32_t> of);

  const std::vector<std::uint32_t>& of() const { return of_; }
  /// Splits the classes of `members` by `sees(member)`, a hash of the classes of a member's neighbours, called once for each. For
  /// all other members this hash has not changed, and it differs from those of `members`. Returns the members with a new class.
  template <class Sees>
  std::vector<Renamed> split(const std::vector<std::uint32_t>& members, const Sees& sees);
  /// The classes, numbered by first members.
  Classes numbered() const;

 private:
  std::vector<std::uint32_t> of_;
  std::vector<std::uint32_t> sizes_;            ///< by class
  std::vector<std::uint32_t> seen_, fullest_;   ///< by class: members that `split` got; its largest group
};

/// A set of members that is filled anew in every round.
class MemberSet {
 public:
  explicit MemberSet(std::size_t members) : is_(members) {}

  void add(std::size_t member) {
    if (is_[member]) return;
    is_[member] = true;
    list_.push_back(static_cast<std::uint32_t>(member));
  }
  void add_all();
  bool all() const { return list_.size() == is_.size(); }
  /// Returns the members and empties the set.
  std::vector<std::uint32_t> take();

 private:
  std::vector<bool> is_;
  std::vector<std::uint32_t> list_;
};

class Refinement {
 public:
  /// `ranks`, `transfers`: initial classes; links begin with a class for each capacity. `transfer_map` must outlive it.
  Refinement(const TransferMap& transfer_map, std::vector<std::uint32_t> ranks, std::vector<std::uint32_t> transfers);

  Folding run();

 private:
  using Members = std::vector<std::uint32_t>;

  void touch_all();
  void split_ranks_and_links();
  bool split_transfers();
  void find_crossings();
  void count_flows(std::uint32_t transfer, std::uint32_t cls, bool crosses);
  colour::Hash seen_by_rank(std::uint32_t rank) const;
  colour::Hash members_of(std::uint32_t transfer) const;
  colour::Hash seen_by_transfer(std::uint32_t transfer) const;

  const TransferMap& transfer_map_;
  SplitClasses ranks_, transfers_, links_;
  MemberSet ranks_touched_, transfers_touched_, links_touched_;
  std::vector<colour::Hash> flows_;           ///< by link: hash sum over the flows that cross it
  std::vector<std::uint32_t> first_, crossing_;  ///< transfers that cross each link; empty until needed
};

}  // namespace tandem::sim
