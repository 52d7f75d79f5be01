#include "experiments/program/terminal.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "models/base/error.hpp"
#include "reports/text.hpp"

namespace tandem::program {

namespace {

constexpr const char* kWipe = "\r\033[K";
constexpr std::int64_t kBarWidth = 30;

volatile std::sig_atomic_t interrupts = 0;

void on_interrupt(int) {
  interrupts = interrupts + 1;
  std::signal(SIGINT, SIG_DFL);
}

bool stderr_is_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  return terminal;
}

/// https://no-color.org: set and not empty means no colour.
bool colour() {
  const char* refused = std::getenv("NO_COLOR");
  return stderr_is_terminal() && !(refused && *refused);
}

void write_err(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void print(const std::string& text) {
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written != text.size() || std::fflush(stdout) != 0) throw std::runtime_error("cannot write to stdout");
}

void print_error(const std::string& message) {
  std::string line;
  for (char c : message) line += c == '\n' ? "; " : std::string(1, c);
  const bool red = colour();
  write_err(std::string("tandem: ") + (red ? "\033[1;31m" : "") + "error: " + (red ? "\033[0m" : "") + line + "\n");
}

void log(const std::string& line) { write_err((stderr_is_terminal() ? kWipe : "") + line + "\n"); }

Progress::Progress(std::int64_t total) : total_(total), shown_(stderr_is_terminal() && total > 0) {}

Progress::~Progress() {
  if (shown_) write_err(kWipe);
}

void Progress::done(std::int64_t count) {
  if (!shown_ || count <= 0) return;
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const auto filled = static_cast<std::size_t>(kBarWidth * std::min(count, total_) / total_);
  const double left = spent / static_cast<double>(count) * static_cast<double>(total_ - count);
  write_err(kWipe + ("[" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "] ") +
            std::to_string(count) + "/" + std::to_string(total_) + ", " + time_text(left) + " left");
}

InterruptWatch::InterruptWatch() {
  interrupts = 0;
  std::signal(SIGINT, on_interrupt);
}

InterruptWatch::~InterruptWatch() { std::signal(SIGINT, SIG_DFL); }

bool InterruptWatch::pressed() { return interrupts != 0; }

void prepare_output(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw ConfigError(Problem{path, "", "", "its folder cannot be made: " + error.message(), "give another file"});
  if (std::filesystem::is_directory(path, error))
    throw ConfigError(Problem{path, "", "", "is a directory, not a file", "give a file in it"});
  const bool special = std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string place = special ? path : folder.empty() ? "." : folder.string();  // a file is replaced, a device written to
  if (access(place.c_str(), W_OK) != 0)
    throw ConfigError(Problem{path, "", "", std::string("cannot be written: ") + std::strerror(errno), "give another file"});
}

void prepare_outputs(std::initializer_list<std::string> paths) {
  for (const std::string& path : paths)
    if (!path.empty()) prepare_output(path);
}

}  // namespace tandem::program
