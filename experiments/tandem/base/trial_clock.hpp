#pragma once
// Shares a limit of time among trials of unknown length.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>

namespace tandem::program {

/// Each trial may take an equal share of what is left; one that ends early leaves its rest to the others.
class TrialClock {
 public:
  explicit TrialClock(double seconds);

  /// The number of shares that the next trials divide the time that is left into.
  void share(std::size_t shares) { shares_ = shares; }
  /// A trial of so many shares begins.
  void start(std::size_t shares = 1);
  /// Whether the trial was stopped because its time was over.
  bool over() const { return over_; }
  /// Says when to stop: if `other` does, or if the trial's time is over. Valid as long as the clock.
  std::function<bool()> stop_or(std::function<bool()> other);

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point end_, trial_end_;
  std::size_t shares_ = 1;
  std::atomic<bool> over_ = false;
};

}  // namespace tandem::program
