#include "experiments/tandem/base/waiting.hpp"

#include <unistd.h>

#include <utility>

#include "experiments/tandem/base/terminal.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

Waiting::Waiting(std::string what, Elsewhere elsewhere) : what_(std::move(what)) {
  if (isatty(STDERR_FILENO) != 0) thread_.try_start([this] { tell(); });
  else if (elsewhere == Elsewhere::lines) thread_.try_start([this] { log_lines(); });
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

std::string Waiting::line() const {
  return what_ + ", " + time_text(std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count());
}

void Waiting::log_lines() {
  constexpr std::chrono::seconds kPause{10};
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kPause, [this] { return over_; })) log("tandem: " + line());
}

void Waiting::tell() {
  constexpr std::chrono::milliseconds kPatience{2000}, kPause{500};
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, kPatience, [this] { return over_; })) return;
  do {
    show_status(line());
  } while (!ended_.wait_for(lock, kPause, [this] { return over_; }));
  show_status("");
}

}  // namespace tandem::program
