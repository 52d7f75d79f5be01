#pragma once
// Simulated time: integer picoseconds, and a total order of events.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/units.hpp"

namespace tandem::sim {

/// Something that happens to `target` at a time. Events of one time happen in the order they were scheduled.
struct Event {
  Duration at;
  std::uint64_t sequence;
  std::uint32_t target;
  std::uint32_t version;  ///< lets the target tell an event that has been overtaken
};

/// Pending events, least (time, sequence) first. O(log n) per operation.
class EventQueue {
 public:
  /// Throws ContractError when `at` lies before now().
  void schedule(Duration at, std::uint32_t target, std::uint32_t version) {
    require(at >= now_, "an event was scheduled in the past");
    heap_.push_back({at, sequence_++, target, version});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  /// Removes the first event and moves now() to its time.
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event first = heap_.back();
    heap_.pop_back();
    now_ = first.at;
    ++popped_;
    return first;
  }

  /// Time of the first event; there must be one.
  Duration next() const { return heap_.front().at; }
  bool empty() const { return heap_.empty(); }
  Duration now() const { return now_; }
  /// Events handed out so far.
  std::int64_t popped() const { return popped_; }

 private:
  static bool later(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.sequence > b.sequence; }

  std::vector<Event> heap_;
  Duration now_;
  std::uint64_t sequence_ = 0;
  std::int64_t popped_ = 0;
};

}  // namespace tandem::sim
