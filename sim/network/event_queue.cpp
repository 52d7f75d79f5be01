#include "sim/network/event_queue.hpp"

#include <algorithm>

namespace tandem::sim {
namespace {

constexpr Duration kNever = Duration::picoseconds(-1);

}  // namespace

EventQueue::EventQueue() : recent_(std::size_t{1} << kRecentBits, 0) { lines_.push_back({kNever, 0, {}}); }

/// Begins a line for a time that has none in recent_.
std::uint32_t EventQueue::begin_line(Duration at) {
  std::uint32_t line = static_cast<std::uint32_t>(lines_.size());
  if (free_.empty()) {
    lines_.emplace_back();
  } else {
    line = free_.back();
    free_.pop_back();
  }
  lines_[line].at = at;
  heap_.push_back({at, begun_++, line});
  std::push_heap(heap_.begin(), heap_.end(), later);
  return recent_[place(at)] = line;
}

/// Removes the first line, which is empty.
void EventQueue::end_line() {
  const std::uint32_t first = heap_.front().line;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  heap_.pop_back();
  lines_[first].at = kNever;
  lines_[first].taken = 0;
  lines_[first].items.clear();
  free_.push_back(first);
}

}  // namespace tandem::sim
