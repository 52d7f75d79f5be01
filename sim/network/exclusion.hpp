#pragma once
// Which communications of a stage never run at the same time: those on one lane, and those where the later one waits for a
// computation that waited for the earlier one.

#include <array>
#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/network/communications.hpp"

namespace tandem::sim {

/// Lane by stream. Streams of one lane exclude each other; different lanes of a rank run at once.
using LaneOfStream = std::array<std::uint8_t, kStreams>;

/// One end of a port: 2 * port + (1 for the receiving end).
using PortEnd = std::uint32_t;

class Exclusion {
 public:
  Exclusion(const TaskGraph& graph, const Communications& communications, const LaneOfStream& lanes);

  /// Whether a rank of `stage` may communicate at both ends at once. May be true although it never does.
  bool at_once(StageId stage, PortEnd a, PortEnd b) const { return together_[(stage.index() * ends_ + a) * ends_ + b] != 0; }

 private:
  std::size_t ends_;
  std::vector<std::uint8_t> together_;  ///< by stage, end, end
};

}  // namespace tandem::sim
