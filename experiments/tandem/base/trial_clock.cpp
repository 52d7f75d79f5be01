#include "experiments/tandem/base/trial_clock.hpp"

#include <algorithm>

namespace tandem::program {

TrialClock::TrialClock(double seconds)
    : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))), trial_end_(end_) {}

void TrialClock::start(std::size_t shares) {
  const Clock::time_point now = Clock::now();
  const std::size_t all = std::max({shares_, shares, std::size_t{1}});
  trial_end_ = now + std::max(Clock::duration::zero(), end_ - now) * static_cast<int>(shares) / static_cast<int>(all);
  shares_ = all - shares;
  over_ = false;
}

std::function<bool()> TrialClock::stop_or(std::function<bool()> other) {
  return [this, other = std::move(other)] {
    if (other && other()) return true;
    if (Clock::now() < trial_end_) return false;
    over_ = true;
    return true;
  };
}

}  // namespace tandem::program
