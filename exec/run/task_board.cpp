#include "exec/run/task_board.hpp"

#include <algorithm>

namespace tandem::exec {

void TaskBoard::reset() {
  std::lock_guard lock(mutex_);
  std::fill(done_.begin(), done_.end(), std::uint8_t{0});
}

void TaskBoard::complete(std::size_t task) {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    done_[task] = 1;
    wake = waiting_ > 0;
  }
  if (wake) changed_.notify_all();
}

bool TaskBoard::all_done(std::span<const std::uint32_t> tasks) const {
  return std::all_of(tasks.begin(), tasks.end(), [&](auto t) { return done_[t] != 0; });
}

bool TaskBoard::wait(std::span<const std::uint32_t> tasks) {
  if (tasks.empty()) return true;
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.wait(lock, [&] { return failed_ || all_done(tasks); });
  --waiting_;
  return !failed_;
}

void TaskBoard::fail() {
  {
    std::lock_guard lock(mutex_);
    failed_ = true;
  }
  changed_.notify_all();
}

bool TaskBoard::failed() const {
  std::lock_guard lock(mutex_);
  return failed_;
}

}  // namespace tandem::exec
