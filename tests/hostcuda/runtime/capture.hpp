#pragma once
// What a captured step holds: work with the work that it waits for, as CUDA's graphs have it.

#include <cuda_runtime_api.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/hostcuda/runtime/lane.hpp"

namespace tandem::hostcuda {

struct Node {
  Work work;
  std::set<std::size_t> after;
  std::size_t lane;  ///< the captured stream's number; each has a thread in a replay
};

/// Work of several streams, captured from one thread.
struct Capture {
  cudaStream_t origin;
  std::thread::id thread;
  std::vector<Node> nodes;
  std::vector<cudaStream_t> streams;  ///< that take part; the first is the origin
  bool invalid = false, ended = false;

  /// True if `last` and what it waits for hold all of these nodes.
  bool reaches(const std::set<std::size_t>& last, const std::set<std::size_t>& nodes_wanted) const;
};

/// Where a stream or an event is in a capture.
struct Position {
  std::shared_ptr<Capture> capture;
  std::set<std::size_t> after;  ///< what the next node waits for
};

/// Performs all nodes, those of different lanes at the same time. Returns when all are done.
void replay(const std::vector<Node>& nodes, std::size_t lanes);

}  // namespace tandem::hostcuda
