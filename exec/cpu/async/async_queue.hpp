#pragma once
// An asynchronous queue over a synchronous one.

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

/// A mark that numbers its settings: how often it was set, and the last one that was reached. Thread-safe.
class AsyncMark final : public Mark {
 public:
  /// `late` is called before the host's wait returns. May be empty.
  explicit AsyncMark(std::function<void()> late = {}) : late_(std::move(late)) {}
  void wait() override;
  std::chrono::steady_clock::time_point reached() const override;

  /// Sets the mark and returns the number of the setting.
  std::uint64_t set();
  /// Number of the last setting.
  std::uint64_t last_set() const;
  /// Called when the queue reaches a setting. `failure`: why earlier work failed, if it did.
  void reach(std::uint64_t setting, std::exception_ptr failure);
  /// Blocks until a setting is reached. Returns the failure of the work before it, if any.
  std::exception_ptr await(std::uint64_t setting) const;

 private:
  std::function<void()> late_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t set_ = 0, reached_ = 0;
  std::exception_ptr failure_;
  std::chrono::steady_clock::time_point at_;
};

/// Runs everything through `inner` on its own thread, in order. After a failure it performs nothing more, and marks pass the
/// failure to their waiters. `between` is called before and after every operation. May be empty.
class AsyncQueue final : public Queue {
 public:
  /// Throws DeviceError if the host cannot start a thread.
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
  /// Enqueues work, which is skipped if the queue has failed by then.
  void push_work(std::function<void()> work);

 private:
  /// Called in order with the failure of earlier items. Returns the failure for later ones.
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
