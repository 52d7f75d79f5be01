#pragma once
// Signs of life from a command that works long without output.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "models/base/threads.hpp"

namespace tandem::program {

/// Behaviour of Waiting if stderr is no terminal.
enum class Elsewhere { silent, lines };

/// After two seconds, shows every half second on a terminal what is being done and for how long. Elsewhere it is silent, or logs a line
/// every ten seconds.
class Waiting {
 public:
  explicit Waiting(std::string what, Elsewhere elsewhere = Elsewhere::silent);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  /// Changes the text to the next piece of work.
  void at(std::string what);

 private:
  void tell();
  void log_lines();
  std::string line() const;

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string what_;
  bool over_ = false;
  ThreadGroup thread_;
};

}  // namespace tandem::program
