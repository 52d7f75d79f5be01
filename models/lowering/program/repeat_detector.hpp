#pragma once
// Detects that a stage's program repeats, so that micro-batches can be copied. (Unrelated to models/ops/recurrence.hpp.)
//
// If the builder's state equals its state some micro-batches ago, it would write the same instances again. They are copied instead.
// Two states are equal if each point in them is equally long ago, or is the same point and older than all points that moved.

#include <cstdint>
#include <vector>

#include "models/lowering/program/point.hpp"

namespace tandem::lowering {

/// Visits the builder's state in a fixed order: take() stores it, compare() compares it, move() advances it past the copies.
class RepeatDetector {
 public:
  /// How much of a program has been written.
  struct Written {
    std::int64_t instances = 0, allocations = 0;
  };
  /// Stores the state shown from here on.
  void take(const Written& so_far);
  /// Compares the state shown from here on with the stored one.
  void compare(const Written& so_far);
  /// Whether all compared state matched.
  bool matches() const;
  /// Advances the points shown from here on, by `times` what was written between the two states. Only after a match.
  void move(std::int64_t times);

  /// A number that must be equal in both states.
  void number(std::int64_t x);
  void point(Point& p);
  void points(Frontier& f) {
    for (Point& p : f) point(p);
  }
  /// A tensor. Its index and offset may differ; the one shown here corresponds to the one shown at this place before.
  void tensor(std::int32_t index);
  /// The tensors shown, in order, when the state was stored and when it was compared.
  const std::vector<std::int32_t>& then() const { return then_; }
  const std::vector<std::int32_t>& now() const { return now_; }
  /// Index of an allocation, either advanced like a point or unchanged.
  void allocation(std::size_t& index);
  /// Declares that the state never matches.
  void refuse();
  /// Whether the comparison has already failed.
  bool over() const { return refused_ || differs_; }

 private:
  enum class Mode : std::uint8_t { take, compare, move };
  struct Time {
    std::int64_t then;
    bool along = false;
  };
  /// The stored time of what is shown, and its distance between the two states.
  Time& time(std::int64_t x, std::int64_t step);

  Mode mode_ = Mode::take;
  bool refused_ = false, differs_ = false;
  std::vector<std::int64_t> numbers_;
  std::vector<Time> times_;
  Time none_{};  ///< stands for a missing time
  std::vector<std::int32_t> then_, now_;
  std::size_t next_number_ = 0, next_time_ = 0;
  Written before_, more_;
  std::int64_t moved_ = 0;
  std::int64_t newest_still_ = 0, oldest_along_ = 0;  ///< points
};

}  // namespace tandem::lowering
