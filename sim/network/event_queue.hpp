#pragma once
// Simulated time: integer picoseconds, and a total order of events.

#include <cstdint>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/units.hpp"

namespace tandem::sim {

/// Something that happens to `target` at a time. Events of one time happen in the order they were scheduled.
struct Event {
  Duration at;
  std::uint32_t target;
  std::uint32_t version;  ///< lets the target recognise an event that is out of date
};

/// Pending events by time, those of one time in the order they were scheduled. Alike ranks make thousands of events of one time:
/// these form a line behind one entry of the heap, so that O(log n) is paid for a time rather than for an event.
class EventQueue {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  EventQueue();

  /// Throws ContractError if `at` is before now().
  void schedule(Duration at, std::uint32_t target, std::uint32_t version) {
    require(at >= now_, "an event was scheduled in the past");
    const std::uint32_t recent = recent_[place(at)];
    lines_[lines_[recent].at == at ? recent : begin_line(at)].items.push_back({target, version});
  }

  /// Removes the first event and moves now() to its time.
  Event pop() {
    Line& line = lines_[heap_.front().line];
    const Item item = line.items[line.taken];
    now_ = line.at;
    ++popped_;
    if (++line.taken == line.items.size()) end_line();
    return {now_, item.target, item.version};
  }

  /// Time of the first event; there must be one.
  Duration next() const { return heap_.front().at; }
  /// Target of the event kAhead places after the first, to prefetch its memory; kNone if it is in another line.
  std::uint32_t coming() const {
    if (heap_.empty()) return kNone;
    const Line& line = lines_[heap_.front().line];
    return line.taken + kAhead < line.items.size() ? line.items[line.taken + kAhead].target : kNone;
  }
  bool empty() const { return heap_.empty(); }
  Duration now() const { return now_; }
  /// Events handed out so far.
  std::int64_t popped() const { return popped_; }

 private:
  static constexpr std::uint32_t kAhead = 6;  ///< places from the first event to the one of coming()
  static constexpr int kRecentBits = 10;

  struct Item {
    std::uint32_t target, version;
  };
  /// Events of one time. A time may have several lines, the earlier ones with the earlier events.
  struct Line {
    Duration at;
    std::uint32_t taken = 0;  ///< number of `items` that were popped
    std::vector<Item> items;
  };
  struct Entry {
    Duration at;
    std::uint64_t order;  ///< in which lines were begun: of two with one time, the earlier comes first
    std::uint32_t line;
  };
  static bool later(const Entry& a, const Entry& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  /// Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4).
  static std::size_t place(Duration at) { return static_cast<std::uint64_t>(at.ps()) * 0x9e3779b97f4a7c15 >> (64 - kRecentBits); }
  std::uint32_t begin_line(Duration at);
  void end_line();

  std::vector<Entry> heap_;
  std::vector<Line> lines_;
  std::vector<std::uint32_t> free_;  ///< unused lines
  /// By hash of the time: the last line begun for a time with this hash. Only the last line of a time may take more events.
  std::vector<std::uint32_t> recent_;
  Duration now_;
  std::uint64_t begun_ = 0;
  std::int64_t popped_ = 0;
};

}  // namespace tandem::sim
