#include "exec/run/stream_worker.hpp"

#include <utility>

namespace tandem::exec {

StreamWorker::StreamWorker(std::function<void(std::uint32_t)> work, std::function<void()> failed)
    : work_(std::move(work)), failed_(std::move(failed)) {
  thread_.start([this] { loop(); });
}

StreamWorker::~StreamWorker() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  pushed_.notify_one();
}

void StreamWorker::push(std::uint32_t item) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(item);
  }
  pushed_.notify_one();
}

void StreamWorker::drain() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return done_ == queue_.size(); });
  queue_.clear();
  done_ = 0;
}

bool StreamWorker::next(std::uint32_t& item) {
  std::unique_lock lock(mutex_);
  pushed_.wait(lock, [&] { return closed_ || done_ < queue_.size(); });
  if (done_ == queue_.size()) return false;
  item = queue_[done_];
  return true;
}

void StreamWorker::run_one(std::uint32_t item) {
  if (broken_) return;
  try {
    work_(item);
  } catch (...) {
    broken_ = true;
    failed_();
  }
}

void StreamWorker::loop() {
  for (std::uint32_t item = 0; next(item);) {
    run_one(item);
    std::lock_guard lock(mutex_);
    if (++done_ == queue_.size()) drained_.notify_one();
  }
}

}  // namespace tandem::exec
