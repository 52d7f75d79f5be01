#pragma once
// What a person at a terminal sees: messages and progress on stderr, data on stdout, and Ctrl-C and its like.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "models/base/threads.hpp"

namespace tandem::program {

/// Writes data to stdout. Throws std::runtime_error when it cannot (a full disk; a closed pipe ends the program).
void print(const std::string& text);

/// One line "tandem: error: ..." on stderr; line breaks inside become "; ".
void print_error(const std::string& message);

/// A line of log on stderr; a progress bar on the terminal is wiped first.
void log(const std::string& line);

/// A bar on the last line of a terminal: how many of `total` are done, and how long the rest will take. Silent elsewhere.
class Progress {
 public:
  explicit Progress(std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void done(std::int64_t count);

 private:
  std::int64_t total_;
  bool shown_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// From now on Ctrl-C, SIGTERM and SIGHUP (unless ignored, as under nohup) end the program at once, with exit code 130.
void end_at_interrupts();

/// An error line that needs no memory.
void tell_no_memory();
/// From now on an allocation that fails ends the program, with that line and exit code 7. To unwind would take memory again: a
/// destructor of the JSON library that gets none ends in abort().
void end_without_memory();

/// While it lives, signals only set a flag that `pressed` tells, for work that has something to keep; a second one ends the program.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  static bool pressed();
};

/// Thrown to leave a long run after that.
struct Interrupted {};

/// At most `jobs` threads, which an InterruptWatch stops; a line of log says where the host gives fewer.
Jobs interruptible(int jobs);

/// Where the part that an interrupted command has made goes, which never takes the place of a file that was there: FILE.interrupted.json
/// beside a FILE.json.
std::string place_when_interrupted(const std::string& path);

/// Makes the folders above an output file. Throws ConfigError when it cannot, or when the file could not be written: before
/// the work that it is to hold.
void prepare_output(const std::string& path);
/// Of those that are not empty. Throws ConfigError, too, when one of them is another one or one of the `inputs` (names may be empty).
void prepare_outputs(const std::vector<std::string>& paths, const std::vector<std::string>& inputs);

}  // namespace tandem::program
