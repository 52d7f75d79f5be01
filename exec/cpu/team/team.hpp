#pragma once
// The threads of one rank. They share loops whose iterations do not depend on each other, so results have the same bits whatever
// their number.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <type_traits>

#include "models/base/threads.hpp"

namespace tandem::exec::cpu {

/// Threads that wait for loops, the caller's among them. Any thread may call split(); a loop that comes while another one runs, from
/// inside it or from another stream, stays on the thread that calls.
class Team {
 public:
  /// The first loop that is worth it starts the others. `worth`: numbers whose work is worth a thread.
  explicit Team(std::int64_t threads, std::int64_t worth = kWorthThread) : threads_(threads), worth_(worth) {}
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::int64_t threads() const { return threads_; }
  /// So many iterations are worth a thread, each of about `width` numbers; at least 1.
  std::int64_t grain(std::int64_t width) const { return std::max<std::int64_t>(1, worth_ / std::max<std::int64_t>(1, width)); }
  /// The same of single elements: whole vectors, so that an element has the same place in its vector as in one loop.
  std::int64_t element_grain(std::int64_t rows = 1) const { return (grain(rows) + kVector - 1) / kVector * kVector; }

  /// body(first, end) for ranges that together are [0, n), each once; `grain`: a range begins at a multiple of it, and none is worth
  /// a thread below it. Throws what the range that begins first has thrown, after all have ended; DeviceError where the host gives no
  /// thread.
  template <class F>
  void split(std::int64_t n, std::int64_t grain, F&& body) {
    if (n <= 0) return;
    if (threads_ == 1 || n <= grain || busy_.test_and_set(std::memory_order_acquire)) return body(std::int64_t{0}, n);
    const auto call = [](void* of, std::int64_t first, std::int64_t end) {
      (*static_cast<std::remove_reference_t<F>*>(of))(first, end);
    };
    run({call, const_cast<void*>(static_cast<const void*>(&body)), n, range_of(n, grain)});
  }

 private:
  static constexpr std::int64_t kWorthThread = 8192, kVector = 64;

  struct Loop {
    void (*call)(void*, std::int64_t, std::int64_t) = nullptr;
    void* body = nullptr;
    std::int64_t n = 0, range = 1;  ///< range: elements of each but the last
  };
  /// Some ranges a thread, so that one that is held up leaves its share to the others.
  std::int64_t range_of(std::int64_t n, std::int64_t grain) const {
    constexpr std::int64_t kRangesEach = 4;
    const std::int64_t even = (n + kRangesEach * threads_ - 1) / (kRangesEach * threads_);
    return std::max<std::int64_t>(1, (even + grain - 1) / grain) * grain;
  }

  void run(const Loop& loop);
  void start();
  void work();
  void take_ranges();
  void keep_error(std::int64_t first);

  const std::int64_t threads_, worth_;
  std::atomic_flag busy_;
  Loop loop_;                                ///< of the round; workers read it behind `round_`
  std::atomic<std::int64_t> next_{0};        ///< where the next range begins
  std::atomic<std::uint32_t> round_{0};      ///< a loop each; waited for
  std::atomic<std::int32_t> working_{0};     ///< workers that have not ended the round; waited for
  std::atomic<bool> failed_{false}, ended_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::int64_t error_at_ = 0;
  bool started_ = false;
  ThreadGroup workers_;                      ///< last: they use all of the above
};

}  // namespace tandem::exec::cpu
