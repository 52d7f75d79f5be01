#pragma once
// Signs of life while a command works for long without a result to show.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "models/base/threads.hpp"

namespace tandem::program {

/// After two seconds tells a terminal every half a second what is done and for how long already. Silent elsewhere.
class Waiting {
 public:
  explicit Waiting(std::string what);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  /// From now on something else is done.
  void at(std::string what);

 private:
  void tell();

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string what_;
  bool over_ = false;
  ThreadGroup thread_;
};

}  // namespace tandem::program
