#include "experiments/tandem/base/waiting.hpp"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

constexpr const char* kWipe = "\r\033[K";

void write_err(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

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
    write_err(kWipe + what_ + ", " + time_text(spent));
  } while (!ended_.wait_for(lock, kPause, [this] { return over_; }));
  write_err(kWipe);
}

}  // namespace tandem::program
