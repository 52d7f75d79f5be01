#pragma once
// The free bytes of an arena as contiguous runs, by address. The
// first run that is long enough is found without a scan of all runs.

#include <array>
#include <cstdint>
#include <vector>

#include "models/lowering/program/repeat_detector.hpp"

namespace tandem::lowering {

/// Bytes that were freed together, with the last tasks that touched them.
struct Hole {
  std::int64_t offset, bytes;
  Frontier last;
};

/// Runs are in leaves of up to 64. Each leaf knows its longest run, so a look-up among n runs touches about n / kLeaf leaves.
class FreeRuns {
 public:
  /// Position of a run. Invalid after a change.
  struct Place {
    std::size_t leaf = 0, index = 0;
  };
  struct Taken {
    std::int64_t offset, bytes;
    Frontier prior;  ///< last tasks that touched these bytes
  };

  /// Finds the first run of at least `bytes`, or the one that ends at `end`, whichever comes first. Returns false if there is none.
  bool first_fit(std::int64_t bytes, std::int64_t end, Place& place) const;
  /// Takes the first `bytes` of a run, or all of a shorter one.
  Taken take(Place place, std::int64_t bytes);
  void add(const Hole& hole);
  void show(RepeatDetector& r);

 private:
  static constexpr std::size_t kLeaf = 64;
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// A hole and the index of the next one in its run.
  struct Node {
    Hole hole;
    std::uint32_t next;
  };
  /// A maximal row of adjacent holes. Holes stay separate because their frontiers differ.
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
  std::uint32_t spare_ = kNone;  ///< first node to reuse: nodes are freed and allocated often
  std::vector<Leaf> leaves_;
  std::vector<Run> idle_;        ///< memory of the only leaf while no bytes are free
};

}  // namespace tandem::lowering
