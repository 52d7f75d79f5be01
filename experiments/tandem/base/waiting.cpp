#include "experiments/tandem/base/waiting.hpp"

#include <unistd.h>

#include <utility>

#include "experiments/tandem/base/terminal.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

Waiting::Waiting(std::string what) : what_(std::move(what)) {
  if (isatty(STDERR_FILENO) != 0) thread_.try_start([this] { tell(); });
}

Waiting::~Waiting() {
  {
    const std::lock_guard guard(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Waiting::at(std::string what) {
  const std::lock_guard guard(mutex_);
  what_ = std::move(what);
}

void Waiting::tell() {
  constexpr std::chrono::milliseconds kPatience{2000}, kPause{500};
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, kPatience, [this] { return over_; })) return;
  do {
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    show_status(what_ + ", " + time_text(spent));
  } while (!ended_.wait_for(lock, kPause, [this] { return over_; }));
  show_status("");
}

}  // namespace tandem::program
