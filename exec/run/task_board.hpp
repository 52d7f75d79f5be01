#pragma once
// Which tasks of a rank's step have ended, for its streams to wait on each other.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace tandem::exec {

/// Completion flags of one rank's tasks. Waits block. Thread-safe.
class TaskBoard {
 public:
  explicit TaskBoard(std::size_t tasks) : done_(tasks) {}
  void reset();
  void complete(std::size_t task);
  /// Returns once all of `tasks` are complete: false when fail() came first.
  bool wait(std::span<const std::uint32_t> tasks);
  /// Wakes every wait(), now and later.
  void fail();
  bool failed() const;

 private:
  bool all_done(std::span<const std::uint32_t> tasks) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint8_t> done_;
  int waiting_ = 0;
  bool failed_ = false;
};

}  // namespace tandem::exec
