#pragma once
// Completion flags of a rank's tasks, on which its streams wait.

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
  /// Blocks until all of `tasks` are complete. Returns false if fail() was called.
  bool wait(std::span<const std::uint32_t> tasks);
  /// Makes every present and later wait() return false.
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
