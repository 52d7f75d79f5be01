#include "exec/cpu/team/team.hpp"

#include <chrono>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::exec::cpu {
namespace {

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Returns once `value` differs from `old`. Spins for about the time between a step's loops, then sleeps.
template <class T>
void await_change(const std::atomic<T>& value, T old) {
  constexpr std::chrono::microseconds kSpin{100};
  constexpr int kPauses = 64;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  while (std::chrono::steady_clock::now() < end)
    for (int i = 0; i < kPauses; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause();
    }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::~Team() {
  ended_ = true;
  ++round_;
  round_.notify_all();
}

void Team::start() {
  for (std::int64_t i = 1; i < threads_; ++i) workers_.start([this] { work(); });
  started_ = true;
}

void Team::run(const Loop& loop) {
  struct Free {
    std::atomic_flag& busy;
    ~Free() { busy.clear(std::memory_order_release); }
  } const free{busy_};
  if (!started_) start();
  loop_ = loop;
  next_.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  working_.store(static_cast<std::int32_t>(threads_ - 1), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  take_ranges();
  for (std::int32_t left = working_.load(std::memory_order_acquire); left != 0; left = working_.load(std::memory_order_acquire))
    await_change(working_, left);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Team::work() {
  for (std::uint32_t seen = 0;;) {
    await_change(round_, seen);
    ++seen;
    if (ended_) return;
    take_ranges();
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_all();
  }
}

/// After a failure no new range begins. Ranges are taken in order, so the lowest failing one has always been taken.
void Team::take_ranges() {
  while (!failed_.load(std::memory_order_relaxed)) {
    const std::int64_t first = next_.fetch_add(loop_.range, std::memory_order_relaxed);
    if (first >= loop_.n) return;
    try {
      loop_.call(loop_.body, first, std::min(loop_.n, first + loop_.range));
    } catch (...) {
      keep_error(first);
    }
  }
}

void Team::keep_error(std::int64_t first) {
  const std::lock_guard guard(mutex_);
  if (!error_ || first < error_at_) error_ = std::current_exception(), error_at_ = first;
  failed_.store(true, std::memory_order_relaxed);
}

}  // namespace tandem::exec::cpu
