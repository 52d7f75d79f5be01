#include "exec/communicator/rendezvous.hpp"

namespace tandem::exec {

std::optional<Clock::time_point> Rendezvous::wait_abortable(std::unique_lock<std::mutex>& lock) {
  const auto mine = generation_;
  ++arrived_;
  changed_.wait(lock, [&] { return generation_ != mine || aborted_; });
  if (generation_ != mine) return full_at_;
  --arrived_;
  return std::nullopt;
}

void Rendezvous::release(std::unique_lock<std::mutex>& lock) {
  arrived_ = 0;
  ++generation_;
  lock.unlock();
  changed_.notify_all();
}

void Rendezvous::meet() {
  std::unique_lock lock(mutex_);
  const auto mine = generation_;
  if (++arrived_ == size_) return release(lock);
  changed_.wait(lock, [&] { return generation_ != mine; });
}

void Rendezvous::abort() {
  {
    std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_all();
}

}  // namespace tandem::exec
