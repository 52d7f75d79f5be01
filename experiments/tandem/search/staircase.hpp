#pragma once
// Times and memories that no other one beats in both.

#include <cstdint>
#include <iterator>
#include <map>

namespace tandem::search {

/// The staircase of (time, memory) points seen so far: memory falls as time grows.
class Staircase {
 public:
  void add(std::int64_t time, std::int64_t memory) {
    if (covers(time, memory)) return;
    const auto begin = steps_.lower_bound(time);
    auto end = begin;
    while (end != steps_.end() && end->second >= memory) ++end;
    steps_.erase(begin, end);
    steps_[time] = memory;
  }
  /// True if some point is at least as good in both.
  bool covers(std::int64_t time, std::int64_t memory) const {
    const auto after = steps_.upper_bound(time);
    return after != steps_.begin() && std::prev(after)->second <= memory;
  }

 private:
  std::map<std::int64_t, std::int64_t> steps_;  ///< time -> memory, falling
};

}  // namespace tandem::search
