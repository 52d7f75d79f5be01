#pragma once
// What a person at a terminal sees: messages and progress on stderr, data on stdout.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::program {

/// Whether this process prints nothing, because another one speaks for all that a launcher started. Returns what was before.
/// Thread-safe.
bool keep_silent(bool silent);

/// Writes text to stdout, control characters but line breaks as "\x1b": names come from files and must not steer a terminal. Throws
/// ConfigError when it cannot (a full disk; a closed pipe ends the program).
void print(const std::string& text);

/// The same for JSON, whose own escapes stay as they are.
void print_json(const std::string& text);

/// One line "tandem: error: ..." on stderr; line breaks inside become "; ".
void print_error(const std::string& message);

/// A line of log on stderr; a progress bar on the terminal is wiped first.
void log(const std::string& line);

/// Puts a line on the last line of a terminal in place of the one before; an empty one wipes it. Silent elsewhere.
void show_status(const std::string& line);

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

/// Makes the folders above an output file. Throws ConfigError when it cannot, or when the file could not be written: before
/// the work that it is to hold.
void prepare_output(const std::string& path);
/// Of those that are not empty. Throws ConfigError, too, when one of them is another one, or a file that the command has read or will
/// read: `inputs` (names may be empty).
void prepare_outputs(const std::vector<std::string>& paths, const std::vector<std::string>& inputs);

}  // namespace tandem::program
