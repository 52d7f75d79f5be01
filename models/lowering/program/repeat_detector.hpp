#pragma once
// Detects that a stage's program repeats, so that micro-batches can be copied. (No relation to recurrent layers: models/ops/recurrence.hpp.)
//
// If the builder's state equals its state some micro-batches ago, the instances written in between would be written again: they are copied.
// Two states are equal if every point of the program in them is equally long ago, or is the same point and older than all that moved.

#include <cstdint>
#include <vector>

#include "models/lowering/program/point.hpp"

namespace tandem::lowering {

/// Visits the builder's state, always in the same order: take() stores it, compare() compares it, move() advances it past the copies.
class RepeatDetector {
 public:
  /// How much of a program has been written.
  struct Written {
    std::int64_t instances = 0, allocations = 0;
  };
  /// Remembers what is shown from here on.
  void take(const Written& so_far);
  /// Compares what is shown from here on.
  void compare(const Written& so_far);
  /// Whether all that was compared is as it was.
  bool matches() const;
  /// What is shown from here on and goes along is moved by `times` what had been written between the two. Only after a match.
  void move(std::int64_t times);

  /// Must be the same.
  void number(std::int64_t x);
  void point(Point& p);
  void points(Frontier& f) {
    for (Point& p : f) point(p);
  }
  /// A tensor, whatever its index and offset: the one that stands here is what the one was that stood here.
  void tensor(std::int32_t index);
  /// Those that were shown, in order: when they were taken, and when they were compared.
  const std::vector<std::int32_t>& then() const { return then_; }
  const std::vector<std::int32_t>& now() const { return now_; }
  /// Index of an allocation; goes along or is the same.
  void allocation(std::size_t& index);
  /// The state is one that never matches.
  void refuse();
  /// Nothing that is shown matters any more.
  bool over() const { return refused_ || differs_; }

 private:
  enum class Mode : std::uint8_t { take, compare, move };
  struct Time {
    std::int64_t then;
    bool along = false;
  };
  /// The place in the program of what is shown, and how far that goes between the two.
  Time& time(std::int64_t x, std::int64_t step);

  Mode mode_ = Mode::take;
  bool refused_ = false, differs_ = false;
  std::vector<std::int64_t> numbers_;
  std::vector<Time> times_;
  Time none_{};  ///< stands for one that there was not
  std::vector<std::int32_t> then_, now_;
  std::size_t next_number_ = 0, next_time_ = 0;
  Written before_, more_;
  std::int64_t moved_ = 0;
  std::int64_t newest_still_ = 0, oldest_along_ = 0;  ///< points
};

}  // namespace tandem::lowering
