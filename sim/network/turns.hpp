#pragma once
// Which communications of a stage can never be under way at the same time, read off its program: on one lane they take
// turns; otherwise, if one that comes later in issue order waits for a computation that waited for the earlier one.

#include <array>
#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/network/catalogue.hpp"

namespace tandem::sim {

/// Streams of one lane take turns; different lanes of one rank run at once.
using LaneOfStream = std::array<std::uint8_t, kStreams>;

/// A port seen from a rank: 2 * port + (1 for the receiving end).
using PortEnd = std::uint32_t;

class Turns {
 public:
  Turns(const TaskGraph& graph, const Catalogue& catalogue, const LaneOfStream& lanes);

  /// Whether a rank of `stage` may be busy at both ends at once. Errs on the side of true.
  bool at_once(StageId stage, PortEnd a, PortEnd b) const { return together_[(stage.index() * ends_ + a) * ends_ + b] != 0; }

 private:
  std::size_t ends_;
  std::vector<std::uint8_t> together_;  ///< by stage, end, end
};

}  // namespace tandem::sim
