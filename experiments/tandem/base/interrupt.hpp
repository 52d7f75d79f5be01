#pragma once
// How commands end before their time: signals, a host without memory or threads.

#include <string>

#include "models/base/threads.hpp"

namespace tandem::program {

/// From now on Ctrl-C, SIGTERM and SIGHUP (unless ignored, as under nohup) end the program at once, with exit code 130.
void end_at_interrupts();
/// From now on they do nothing: the program ends already.
void ignore_interrupts();

/// An error line that needs no memory.
void tell_no_memory();
/// From now on an allocation that fails ends the program, with that line and exit code 7. To unwind would take memory again: a
/// destructor of the JSON library that gets none ends in abort().
void end_without_memory();

/// While it lives, signals only set a flag that `pressed` tells, for work that has something to keep; a second one ends the program.
class InterruptWatch {
 public:
  /// `tells`: with a line on stderr. Where a launcher passes a signal on to many processes, that of one is enough.
  explicit InterruptWatch(bool tells = true);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  static bool pressed();
  /// The line.
  static std::string notice();
};

/// Thrown to leave a long run after that.
struct Interrupted {};

/// At most `jobs` threads, which an InterruptWatch stops; a line of log says where the host gives fewer.
Jobs interruptible(int jobs);

/// Where the part that an interrupted command has made goes, which never takes the place of a file that was there: FILE.interrupted.json
/// beside a FILE.json.
std::string place_when_interrupted(const std::string& path);

}  // namespace tandem::program
