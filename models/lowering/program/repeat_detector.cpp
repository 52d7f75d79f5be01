#include "models/lowering/program/repeat_detector.hpp"

#include <algorithm>
#include <limits>

namespace tandem::lowering {

void RepeatDetector::take(const Written& so_far) {
  mode_ = Mode::take;
  refused_ = differs_ = false;
  numbers_.clear();
  times_.clear();
  then_.clear();
  before_ = so_far;
}

void RepeatDetector::compare(const Written& so_far) {
  mode_ = Mode::compare;
  differs_ = false;
  next_number_ = next_time_ = 0;
  now_.clear();
  more_ = {so_far.instances - before_.instances, so_far.allocations - before_.allocations};
  newest_still_ = std::numeric_limits<std::int64_t>::min();
  oldest_along_ = std::numeric_limits<std::int64_t>::max();
}

bool RepeatDetector::matches() const {
  const bool all = next_number_ == numbers_.size() && next_time_ == times_.size() && now_.size() == then_.size();
  return mode_ == Mode::compare && !over() && all && newest_still_ < oldest_along_;
}

void RepeatDetector::move(std::int64_t times) {
  mode_ = Mode::move;
  next_time_ = 0;
  moved_ = times;
}

void RepeatDetector::refuse() { (mode_ == Mode::take ? refused_ : differs_) = true; }

void RepeatDetector::number(std::int64_t x) {
  if (mode_ == Mode::take) numbers_.push_back(x);
  else if (mode_ == Mode::compare && (next_number_ == numbers_.size() || numbers_[next_number_++] != x)) differs_ = true;
}

void RepeatDetector::tensor(std::int32_t index) {
  if (mode_ == Mode::take) then_.push_back(index);
  else if (mode_ == Mode::compare) now_.push_back(index);
}

RepeatDetector::Time& RepeatDetector::time(std::int64_t x, std::int64_t step) {
  if (mode_ == Mode::take) return times_.emplace_back(Time{x});
  if (next_time_ == times_.size()) {  // more is shown than there was
    differs_ = true;
    return none_ = {x};
  }
  Time& t = times_[next_time_++];
  if (mode_ == Mode::move) return t;
  t.along = x != t.then;
  if (t.along && x - t.then != step) differs_ = true;
  return t;
}

void RepeatDetector::point(Point& p) {
  const Time& t = time(p.issue(), Point::kTasks * more_.instances);
  if (mode_ == Mode::compare && t.along) oldest_along_ = std::min(oldest_along_, t.then);
  if (mode_ == Mode::compare && !t.along) newest_still_ = std::max(newest_still_, t.then);
  if (mode_ == Mode::move && t.along) p.go(moved_ * more_.instances);
}

void RepeatDetector::allocation(std::size_t& index) {
  const Time& t = time(static_cast<std::int64_t>(index), more_.allocations);
  if (mode_ == Mode::move && t.along) index += static_cast<std::size_t>(moved_ * more_.allocations);
}

}  // namespace tandem::lowering
