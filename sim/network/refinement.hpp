#pragma once
// Splits classes of ranks, transfers and links until the members of each see the same of the others. A round looks only at members
// that see a class which the round before split: asymmetry that walks along a chain of nodes costs no more than the chain.

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/network/colour_hash.hpp"
#include "sim/network/roles.hpp"

namespace tandem::sim {

/// A member that has another class than before.
struct Renamed {
  std::uint32_t member, before;
};

/// A partition on its way.
class SplitClasses {
 public:
  /// `of`: class of each member, numbered from 0.
  explicit SplitClasses(std::vector<std::uint32_t> of);

  const std::vector<std::uint32_t>& of() const { return of_; }
  /// Splits classes by what their members see now: `sees(member)`, a hash, of each of `members` once. The others see what they saw before,
  /// none of these does. Returns the members that have a new class.
  template <class Sees>
  std::vector<Renamed> split(const std::vector<std::uint32_t>& members, const Sees& sees);
  /// Numbered by first members.
  Classes numbered() const;

 private:
  std::vector<std::uint32_t> of_;
  std::vector<std::uint32_t> sizes_;            ///< by class
  std::vector<std::uint32_t> seen_, fullest_;   ///< by class: members that `split` was told of, the group of most of them
};

/// A set of members that is filled anew in every round.
class Touched {
 public:
  explicit Touched(std::size_t members) : is_(members) {}

  void add(std::size_t member) {
    if (is_[member]) return;
    is_[member] = true;
    list_.push_back(static_cast<std::uint32_t>(member));
  }
  void add_all();
  bool all() const { return list_.size() == is_.size(); }
  /// Empties it.
  std::vector<std::uint32_t> take();

 private:
  std::vector<bool> is_;
  std::vector<std::uint32_t> list_;
};

class Refinement {
 public:
  /// Classes of ranks and of transfers that are to be split; links of a capacity are a class. `transfer_map` must outlive it.
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
  Touched ranks_touched_, transfers_touched_, links_touched_;
  std::vector<colour::Hash> flows_;           ///< by link: sum over what crosses it
  std::vector<std::uint32_t> first_, crossing_;  ///< by link: its first in `crossing_`, transfers; empty until it is asked for
};

}  // namespace tandem::sim
