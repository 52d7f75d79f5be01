#pragma once
// A queue of bounded size between the thread that reads the arenas and the one that writes to disk. A full queue blocks the reader.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

namespace tandem::exec {

class PartQueue {
 public:
  explicit PartQueue(std::size_t most_bytes) : most_(most_bytes) {}

  /// Blocks while the queue is full. Returns false, and drops the part, if the writer has ended.
  bool push(std::string part) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || parts_.empty() || bytes_ + part.size() <= most_; });
    if (ended_) return false;
    bytes_ += part.size();
    parts_.push_back(std::move(part));
    changed_.notify_all();
    return true;
  }
  /// The reader's signal that no more parts follow.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  /// Blocks until there is a part. Returns false once the queue is closed and empty.
  bool pop(std::string& part) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !parts_.empty(); });
    if (parts_.empty()) return false;
    part = std::move(parts_.front());
    parts_.pop_front();
    bytes_ -= part.size();
    changed_.notify_all();
    return true;
  }
  /// The writer's signal that it accepts no more parts.
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    parts_.clear();
    changed_.notify_all();
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> parts_;
  std::size_t bytes_ = 0;
  bool closed_ = false, ended_ = false;
};

}  // namespace tandem::exec
