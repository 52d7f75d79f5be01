#pragma once
// The threads of a rank. They share loops with independent
// iterations, so results do not depend on their number.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <type_traits>

#include "models/base/threads.hpp"

namespace tandem::exec::cpu {

/// Threads that wait for loops, including the caller. Any thread may call split(). A loop that starts while another one runs,
/// nested or on another stream, stays on its calling thread.
class Team {
 public:
  /// Threads start with the first loop that is large enough. `worth`: numbers of work that justify a further thread.
  explicit Team(std::int64_t threads, std::int64_t worth = kWorthThread) : threads_(threads), worth_(worth) {}
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::int64_t threads() const { return threads_; }
  /// Number of iterations, each of about `width` numbers, that justify a further thread; at least 1.
  std::int64_t grain(std::int64_t width) const { return std::max<std::int64_t>(1, worth_ / std::max<std::int64_t>(1, width)); }
  /// grain() for single elements, rounded up to whole vectors. So an element keeps its vector lane.
  std::int64_t element_grain(std::int64_t rows = 1) const { return (grain(rows) + kVector - 1) / kVector * kVector; }

  /// Calls body(first, end) for ranges that cover [0, n) once. Ranges start at multiples of `grain`; less work than `grain` is not
  /// split. After all have ended, rethrows the exception of the lowest failed range. Throws DeviceError if the host cannot start a
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
    std::int64_t n = 0, range = 1;  ///< range: elements per range, except the last
  };
  /// Several ranges per thread, so that other threads can take over a delayed thread's share.
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
  Loop loop_;                                ///< of the present round; workers read it after `round_` has changed
  std::atomic<std::int64_t> next_{0};        ///< start of the next range
  std::atomic<std::uint32_t> round_{0};      ///< counts loops; workers wait for a change
  std::atomic<std::int32_t> working_{0};     ///< workers that have not finished the round; the caller waits for 0
  std::atomic<bool> failed_{false}, ended_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::int64_t error_at_ = 0;
  bool started_ = false;
  ThreadGroup workers_;                      ///< last: they use all of the above
};

}  // namespace tandem::exec::cpu
