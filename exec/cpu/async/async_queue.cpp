#include "exec/cpu/async/async_queue.hpp"

#include <utility>
#include <vector>

namespace tandem::exec::cpu {
namespace {

/// A copy of a launch that outlives the call of run().
struct KeptLaunch {
  const Op* op;
  DType compute;
  std::vector<Tensor> in, out;
  KernelContext context;
  std::vector<std::int32_t> rows;

  explicit KeptLaunch(const Launch& l)
      : op(&l.op), compute(l.compute), in(l.in.begin(), l.in.end()), out(l.out.begin(), l.out.end()), context(l.context),
        rows(l.rows.begin(), l.rows.end()) {}
  Launch launch() const { return {*op, compute, in, out, context, rows}; }
};

}  // namespace

// ---- marks ----

std::uint64_t AsyncMark::set() {
  std::lock_guard lock(mutex_);
  return ++set_;
}

std::uint64_t AsyncMark::last_set() const {
  std::lock_guard lock(mutex_);
  return set_;
}

/// Notifies under the lock, because a waiter may destroy the mark as soon as the lock is free.
void AsyncMark::reach(std::uint64_t setting, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  reached_ = setting;
  failure_ = std::move(failure);
  at_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

std::exception_ptr AsyncMark::await(std::uint64_t setting) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_ >= setting; });
  return failure_;
}

void AsyncMark::wait() {
  const auto failure = await(last_set());
  if (late_) late_();
  if (failure) std::rethrow_exception(failure);
}

std::chrono::steady_clock::time_point AsyncMark::reached() const {
  std::lock_guard lock(mutex_);
  return at_;
}

// ---- the queue ----

AsyncQueue::AsyncQueue(Queue& inner, std::function<void()> between) : inner_(inner), between_(std::move(between)) {
  thread_.start([this] { loop(); });
}

AsyncQueue::~AsyncQueue() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  pushed_.notify_one();
}

void AsyncQueue::push(Item item) {
  {
    std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  pushed_.notify_one();
}

void AsyncQueue::push_work(std::function<void()> work) {
  push([this, work = std::move(work)](std::exception_ptr failure) {
    if (failure) return failure;
    try {
      if (between_) between_();
      work();
      if (between_) between_();
    } catch (...) {
      return std::current_exception();
    }
    return failure;
  });
}

void AsyncQueue::run(const Launch& launch) {
  push_work([this, kept = KeptLaunch(launch)] { inner_.run(kept.launch()); });
}

void AsyncQueue::upload(std::byte* to, std::span<const std::byte> from) {
  push_work([this, to, kept = std::vector<std::byte>(from.begin(), from.end())] { inner_.upload(to, kept); });
}

void AsyncQueue::download(std::span<std::byte> to, const std::byte* from) {
  push_work([this, to, from] { inner_.download(to, from); });
}

void AsyncQueue::mark(Mark& mark) {
  auto& place = static_cast<AsyncMark&>(mark);
  push([&place, setting = place.set()](std::exception_ptr failure) {
    place.reach(setting, failure);
    return failure;
  });
}

void AsyncQueue::wait(const Mark& mark) {
  const auto& place = static_cast<const AsyncMark&>(mark);
  push([&place, setting = place.last_set()](std::exception_ptr failure) {
    const auto theirs = place.await(setting);
    return failure ? failure : theirs;
  });
}

void AsyncQueue::finish() {
  std::unique_lock lock(mutex_);
  emptied_.wait(lock, [&] { return items_.empty() && !busy_; });
  if (failure_) std::rethrow_exception(failure_);
}

bool AsyncQueue::next(Item& item) {
  std::unique_lock lock(mutex_);
  busy_ = false;
  if (items_.empty()) emptied_.notify_all();
  pushed_.wait(lock, [&] { return closed_ || !items_.empty(); });
  if (items_.empty()) return false;
  item = std::move(items_.front());
  items_.pop_front();
  busy_ = true;
  return true;
}

void AsyncQueue::loop() {
  std::exception_ptr failure;
  for (Item item; next(item);) {
    failure = item(failure);
    item = nullptr;
    std::lock_guard lock(mutex_);
    failure_ = failure;
  }
}

}  // namespace tandem::exec::cpu
