#include "sim/event_queue.hpp"

#include <algorithm>
#include <utility>

namespace tandem::sim {
namespace {

constexpr int kRecentBits = 10;

/// Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4).
std::size_t place(Duration at) { return static_cast<std::uint64_t>(at.ps()) * 0x9e3779b97f4a7c15 >> (64 - kRecentBits); }

}  // namespace

EventQueue::EventQueue() : recent_(std::size_t{1} << kRecentBits, 0) { lines_.push_back({Duration::picoseconds(-1)}); }

void EventQueue::schedule(Duration at, std::uint32_t target, std::uint32_t version) {
  require(at >= now_, "an event was scheduled in the past");
  const std::uint32_t added = item(target, version);
  Line& line = lines_[line_at(at)];
  if (line.size == 0) line.first = added;
  else items_[line.last].next = added;
  line.last = added;
  if (line.size++ == kAhead) line.coming = added;
}

Event EventQueue::pop() {
  const std::uint32_t id = heap_.front().line;
  Line& line = lines_[id];
  const std::uint32_t taken = line.first;
  Item& first = items_[taken];
  const Event event{line.at, first.target, first.version};
  line.first = first.next;
  if (line.coming != kNone) line.coming = items_[line.coming].next;
  first.next = std::exchange(free_item_, taken);
  if (--line.size == 0) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    line.at = Duration::picoseconds(-1);
    line.first = std::exchange(free_line_, id);
  }
  now_ = event.at;
  ++popped_;
  return event;
}

std::uint32_t EventQueue::coming() const {
  if (heap_.empty()) return kNone;
  const std::uint32_t item = lines_[heap_.front().line].coming;
  return item == kNone ? kNone : items_[item].target;
}

/// The line that an event of this time joins, begun where there is none at hand.
std::uint32_t EventQueue::line_at(Duration at) {
  std::uint32_t& recent = recent_[place(at)];
  if (lines_[recent].at == at) return recent;
  if (free_line_ == kNone) {
    recent = static_cast<std::uint32_t>(lines_.size());
    lines_.emplace_back();
  } else {
    recent = free_line_;
    free_line_ = lines_[recent].first;
  }
  lines_[recent] = {at};
  heap_.push_back({at, begun_++, recent});
  std::push_heap(heap_.begin(), heap_.end(), later);
  return recent;
}

std::uint32_t EventQueue::item(std::uint32_t target, std::uint32_t version) {
  if (free_item_ == kNone) {
    items_.push_back({target, version, kNone});
    return static_cast<std::uint32_t>(items_.size() - 1);
  }
  const std::uint32_t at = free_item_;
  free_item_ = items_[at].next;
  items_[at] = {target, version, kNone};
  return at;
}

}  // namespace tandem::sim
