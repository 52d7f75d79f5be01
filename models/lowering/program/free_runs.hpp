#pragma once
// The free bytes of an arena as runs without a gap, by address, so that the first run that is long enough is found without looking
// at all of them.

#include <array>
#include <cstdint>
#include <vector>

#include "models/lowering/program/repeat_detector.hpp"

namespace tandem::lowering {

/// Bytes that were freed together.
struct Hole {
  std::int64_t offset, bytes;
  Frontier last;
};

/// Runs in leaves of some dozens, each leaf with the length of its longest run. Of n runs a look-up touches about n / kLeaf leaves.
class FreeRuns {
 public:
  /// Where a run stands; until the next change.
  struct Place {
    std::size_t leaf = 0, index = 0;
  };
  struct Taken {
    std::int64_t offset, bytes;
    Frontier prior;  ///< who touched these bytes last
  };

  /// The first run of at least `bytes`, or the one that ends at `end`, whichever comes first; false: there is none.
  bool first_fit(std::int64_t bytes, std::int64_t end, Place& place) const;
  /// The first `bytes` of a run, or all of a shorter one, are free no more.
  Taken take(Place place, std::int64_t bytes);
  void add(const Hole& hole);
  void show(RepeatDetector& r);

 private:
  static constexpr std::size_t kLeaf = 64;
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// A hole and the one behind it in its run.
  struct Node {
    Hole hole;
    std::uint32_t next;
  };
  /// A longest row of adjacent holes, which are kept apart, for their frontiers differ.
  struct Run {
    std::int64_t offset, bytes;
    std::uint32_t first, last;  ///< nodes
    std::int64_t end() const { return offset + bytes; }
  };
  struct Leaf {
    std::vector<Run> runs;  ///< never empty
    std::int64_t longest = 0;
  };

  Place after(std::int64_t offset) const;
  Run* at(Place p) { return p.leaf < leaves_.size() ? &leaves_[p.leaf].runs[p.index] : nullptr; }
  std::uint32_t node(const Hole& hole);
  void insert(Place place, const Run& run);
  void erase(Place place, bool longest);
  inline void measure(std::size_t leaf);

  std::vector<Node> nodes_;
  std::uint32_t spare_ = kNone;  ///< the first node to be used again; they come and go all the time
  std::vector<Leaf> leaves_;
  std::vector<Run> idle_;        ///< memory of the only leaf while nothing is free
};

}  // namespace tandem::lowering
