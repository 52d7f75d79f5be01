#pragma once
// Lays a stage's tensors out in one arena while its program is being written, remembering who touched every byte last.

#include <array>
#include <vector>

#include "models/task_graph.hpp"

namespace tandem::lowering {

/// A point in a program: the task of an instance. Programs are written in issue order, so points compare by time of issue.
/// One number, for frontiers of them are copied and merged all the time.
class Point {
 public:
  constexpr Point() = default;  ///< never: instance -1
  constexpr Point(std::int64_t instance, std::uint16_t task) : issue_(instance * kTasks + task) {}
  constexpr std::int64_t instance() const { return issue_ >> 16; }
  constexpr std::uint16_t task() const { return static_cast<std::uint16_t>(issue_ & (kTasks - 1)); }
  auto operator<=>(const Point&) const = default;

 private:
  static constexpr std::int64_t kTasks = 1 << 16;
  std::int64_t issue_ = -1;
};

/// The latest task of every stream that touched some bytes.
using Frontier = std::array<Point, kStreams>;

/// First fit, lowest address first. Free bytes keep the frontier of their last owner.
class Arena {
 public:
  struct Block {
    std::int64_t offset;
    Bytes bytes;         ///< rounded up to the alignment
    Frontier prior;      ///< who may still be using these bytes
  };
  Block allocate(Bytes bytes);
  /// Behind everything there has been.
  Block append(Bytes bytes);
  void release(std::int64_t offset, Bytes bytes, const Frontier& last);
  Bytes high_water() const { return Bytes(end_); }

 private:
  struct Hole {
    std::int64_t offset, bytes;
    Frontier last;
  };
  std::vector<Hole> holes_;  ///< ascending offset, adjacent holes kept apart: their frontiers differ
  std::int64_t end_ = 0;
};

}  // namespace tandem::lowering
