#include "experiments/tandem/base/terminal.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/output.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

constexpr const char* kWipe = "\r\033[K";
constexpr std::int64_t kBarWidth = 30;

bool stderr_is_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  return terminal;
}

/// A non-empty NO_COLOR disables colour (https://no-color.org).
bool colour() {
  const char* refused = std::getenv("NO_COLOR");
  return stderr_is_terminal() && !(refused && *refused);
}

std::atomic<bool> silent = false, closed = false;

void write_err(const std::string& text) {
  if (silent) return;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

ExitCode delivered(ExitCode code) { return code == ExitCode::ok && closed ? ExitCode::unread : code; }

bool keep_silent(bool wanted) { return silent.exchange(wanted); }

void print_json(const std::string& text) {
  if (silent) return;
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) {
    closed = true;
    return;
  }
  throw ConfigError(Problem{"standard output", "", "", std::string("cannot be written: ") + std::strerror(errno), ""});
}

void show_status(const std::string& line) {
  if (stderr_is_terminal()) write_err(kWipe + printable(line));
}

void print(const std::string& text) { print_json(printable(text, "\n")); }

void print_error(const std::string& message) {
  std::string line;
  for (char c : message) line += c == '\n' ? "; " : std::string(1, c);
  line = printable(line);
  const bool red = colour();
  write_err(std::string("tandem: ") + (red ? "\033[1;31m" : "") + "error: " + (red ? "\033[0m" : "") + line + "\n");
}

void log(const std::string& line) { write_err((stderr_is_terminal() ? kWipe : "") + printable(line, "\n") + "\n"); }

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

void prepare_output(const std::string& path) {
  if (is_folder(path))
    throw ConfigError(Problem{path, "", "", "is a directory, not a file", "give a file in it"});
  const OutputPlace place = output_place(path);
  const std::filesystem::path folder = std::filesystem::path(place.path).parent_path();
  const std::error_code error = folder.empty() ? std::error_code() : make_folders(folder);
  if (error) throw ConfigError(Problem{path, "", "", "its folder cannot be made: " + error.message(), "give another file"});
  if (!takes_output(place))
    throw ConfigError(Problem{path, "", "", std::string("cannot be written: ") + std::strerror(errno), "give another file"});
}

namespace {

/// True if two names are the same regular file, which writing would replace; false for devices and pipes.
bool one_file(const std::string& a, const std::string& b) {
  const OutputPlace place = output_place(a);  // the target of links, which need not exist
  const std::string whole = canonical_path(place.path);
  return !place.in_place && !whole.empty() && whole == canonical_path(output_place(b).path);
}

}  // namespace

void prepare_outputs(const std::vector<std::string>& paths, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) note_input(input);
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    if (path->empty()) continue;
    require_no_input(*path);
    for (auto other = paths.begin(); other != path; ++other)
      if (!other->empty() && one_file(*path, *other))
        throw ConfigError(Problem{*path, "", "", "is wanted for two outputs: " + *other + " is the same file", "give another file"});
    prepare_output(*path);
  }
}

}  // namespace tandem::program
