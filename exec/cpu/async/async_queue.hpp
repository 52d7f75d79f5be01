#pragma once
// A queue that runs ahead of the host, over one that does not.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "exec/backend/queue.hpp"
#include "models/base/threads.hpp"

namespace tandem::exec::cpu {

/// Counts how often it was set and how often that was reached. Thread-safe.
class AsyncMark final : public Mark {
 public:
  /// `late` is called before the host's wait returns; it may be empty.
  explicit AsyncMark(std::function<void()> late = {}) : late_(std::move(late)) {}
  void wait() override;
  std::chrono::steady_clock::time_point reached() const override;

  /// Which setting the next one is.
  std::uint64_t set();
  /// Which setting was the last one.
  std::uint64_t last_set() const;
  /// The queue has come to a setting; `failure` is what ended the work before it, if anything.
  void reach(std::uint64_t setting, std::exception_ptr failure);
  /// Blocks until a setting was reached. Returns what ended the work before it.
  std::exception_ptr await(std::uint64_t setting) const;

 private:
  std::function<void()> late_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t set_ = 0, reached_ = 0;
  std::exception_ptr failure_;
  std::chrono::steady_clock::time_point at_;
};

/// Hands everything to `inner` on a thread of its own, in order. After a failure it performs nothing more, and marks carry the failure
/// to whoever waits for them. `between` is called before and after every operation; it may be empty.
class AsyncQueue final : public Queue {
 public:
  /// Throws DeviceError where the host gives no thread.
  AsyncQueue(Queue& inner, std::function<void()> between);
  ~AsyncQueue() override;
  AsyncQueue(const AsyncQueue&) = delete;
  AsyncQueue& operator=(const AsyncQueue&) = delete;

  void run(const Launch& launch) override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) override;
  void mark(Mark& mark) override;
  void wait(const Mark& mark) override;
  void finish() override;
  /// Something to perform, unless the queue has failed.
  void push_work(std::function<void()> work);

 private:
  /// Performed in order; the argument is what ended the work before, and what it returns what ends it from here on.
  using Item = std::function<std::exception_ptr(std::exception_ptr)>;

  void push(Item item);
  bool next(Item& item);
  void loop();

  Queue& inner_;
  std::function<void()> between_;
  mutable std::mutex mutex_;
  std::condition_variable pushed_, emptied_;
  std::deque<Item> items_;
  bool busy_ = false, closed_ = false;
  std::exception_ptr failure_;
  ThreadGroup thread_;  ///< last: it uses all of the above
};

}  // namespace tandem::exec::cpu
