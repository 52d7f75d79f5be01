#pragma once
// How commands end early: on signals, or when the host lacks memory or threads.

#include <string>

#include "models/base/threads.hpp"

namespace tandem::program {

/// From now on Ctrl-C, SIGTERM and SIGHUP end the program at once with exit code 130. Signals ignored before (nohup) stay ignored.
void end_at_interrupts();
/// From now on signals are ignored, because the program is already ending.
void ignore_interrupts();

/// Prints an error line without allocating memory.
void tell_no_memory();
/// From now on the first failed allocation prints that line and ends the program with exit code 7. Unwinding would need memory again: a
/// destructor of the JSON library that gets none calls abort().
void end_without_memory();

/// While it exists, a signal only sets the flag of pressed(), so that work can save results. A second signal ends the program.
class InterruptWatch {
 public:
  /// `tells`: print a line on stderr. If a launcher passes a signal to many processes, one line is enough.
  explicit InterruptWatch(bool tells = true);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  static bool pressed();
  /// The text of that line.
  static std::string notice();
};

/// Thrown to leave a long run after an interrupt.
struct Interrupted {};

/// At most `jobs` threads, stopped by an InterruptWatch. Logs a line if the host has fewer.
Jobs interruptible(int jobs);

/// The path for partial results of an interrupted command: FILE.interrupted.json for FILE.json. It never replaces an existing
/// result.
std::string place_when_interrupted(const std::string& path);

}  // namespace tandem::program
