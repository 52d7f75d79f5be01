#pragma once
// Tells whether what a program's rest depends on is as it was before, and then moves it on.
//
// A stage does the same for micro-batch after micro-batch. Where its state is that of some micro-batches ago, what was written in
// between is what would be written next, and can be copied. Points in the program are as they were if they are as long ago, or if they
// are the very same and older than every one that goes along.

#include <cstdint>
#include <vector>

#include "models/lowering/program/point.hpp"

namespace tandem::lowering {

/// Shown the same state in the same order every time: first it remembers, then it compares, and then it may move.
class Recurrence {
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
