#pragma once
// Points in a program (a task of an instance), and frontiers of points.

#include <algorithm>
#include <array>
#include <cstdint>

#include "models/graph/task_graph.hpp"

namespace tandem::lowering {

/// A point in a program: a task of an instance. Programs are written in issue order, so points
/// compare by issue time. Stored as one number, because frontiers are copied and merged often.
class Point {
 public:
  constexpr Point() = default;  ///< no point: instance -1
  constexpr Point(std::int64_t instance, std::uint16_t task) : issue_(instance * kTasks + task) {}
  constexpr std::int64_t instance() const { return issue_ >> 16; }
  constexpr std::uint16_t task() const { return static_cast<std::uint16_t>(issue_ & (kTasks - 1)); }
  auto operator<=>(const Point&) const = default;
  /// The number that points compare by. Each instance has kTasks numbers.
  constexpr std::int64_t issue() const { return issue_; }
  /// Moves to the same task `instances` later.
  constexpr void go(std::int64_t instances) { issue_ += instances * kTasks; }
  static constexpr std::int64_t kTasks = 1 << 16;

 private:
  std::int64_t issue_ = -1;
};

/// For each stream, its latest task that touched some bytes.
using Frontier = std::array<Point, kStreams>;

inline void merge(Frontier& into, const Frontier& other) {
  for (std::size_t s = 0; s < kStreams; ++s) into[s] = std::max(into[s], other[s]);
}

}  // namespace tandem::lowering
