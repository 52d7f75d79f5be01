#pragma once
// Output for people: messages and progress on stderr, data on stdout.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/tandem/base/exit_code.hpp"

namespace tandem::program {

/// If `silent`, this process prints nothing, because another one prints for all that a launcher started. Returns the previous
/// setting. Thread-safe.
bool keep_silent(bool silent);

/// `code`, or ExitCode::unread in place of ok if the reader of stdout has closed its pipe before all was written.
ExitCode delivered(ExitCode code);

/// Prints to stdout. Control characters except line breaks become "\x1b", so that names from files cannot control a terminal.
/// Throws ConfigError if writing fails (full disk). If the reader has closed its pipe, does nothing but make delivered() say so.
void print(const std::string& text);

/// Prints JSON to stdout, whose own escapes stay unchanged.
void print_json(const std::string& text);

/// Prints "tandem: error: ..." on stderr. Line breaks inside become "; ".
void print_error(const std::string& message);

/// Prints a log line on stderr, after clearing a progress bar.
void log(const std::string& line);

/// Replaces the status line at the bottom of a terminal; "" clears it. Does nothing if stderr is no terminal.
void show_status(const std::string& line);

/// A progress bar at the bottom of a terminal: how many of `total` are done and the remaining time. Silent elsewhere.
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

/// Creates the folders above an output file. Throws ConfigError if that fails or the file could not be written. Call it before the
/// work, so that no result is lost.
void prepare_output(const std::string& path);
/// prepare_output() for all non-empty paths. Also throws ConfigError if two paths are the same file, or one is a file in `inputs`,
/// which the command reads (names may be empty).
void prepare_outputs(const std::vector<std::string>& paths, const std::vector<std::string>& inputs);

}  // namespace tandem::program
