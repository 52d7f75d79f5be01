#include "experiments/tandem/study/results.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "models/base/files.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"

namespace tandem::study {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& path, const std::string& reason, const std::string& remedy) {
  throw ConfigError(Problem{path, "", "", reason, remedy});
}

/// A stored line as JSON; null when it is none (cut off, or not ours).
ordered_json row_of(const std::string& line) {
  ordered_json row = ordered_json::parse(line, nullptr, false);
  const bool whole =
      row.is_object() && row.contains("key") && row["key"].is_string() && row.contains("status") && row.contains("at");
  return whole ? row : ordered_json();
}

void write_all(int file, const std::string& text, const std::string& path) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) refuse(path, std::string("cannot be written: ") + std::strerror(errno), "make room");
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

/// The point's own place in a line that another point with the same plan may have left, and what the study's goal makes of it.
std::string placed(const std::string& line, const Point& point, const std::optional<Goal>& goal) {
  ordered_json row = ordered_json::parse(line);
  row["at"] = ordered_json::parse(point.at);
  add_goal(row, goal);
  return row.dump();
}

}  // namespace

Results::Results(std::string folder, const std::vector<Candidate>& candidates) : folder_(std::move(folder)) {
  if (const std::error_code failed = make_folders(folder_); failed)
    refuse(folder_, "cannot be made: " + failed.message(), "give another folder with --out");
  lock();
  read_kept(candidates);
  open_log();
}

Results::~Results() {
  if (log_ >= 0) ::close(log_);
  if (lock_ >= 0) ::close(lock_);
}

void Results::lock() {
  lock_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0)
    refuse(folder_, std::string("cannot be opened: ") + std::strerror(errno), "give another folder with --out");
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
    refuse(folder_, "another sweep is writing here", "wait for it, or give another folder with --out");
}

void Results::read_kept(const std::vector<Candidate>& candidates) {
  const std::string file = path("results.jsonl");
  if (!file_exists(file)) return;
  std::set<std::string> wanted;
  for (const Candidate& c : candidates) wanted.insert(c.key);
  std::istringstream lines(read_text(file, std::size_t{1} << 32));
  for (std::string line; std::getline(lines, line);) {
    const ordered_json row = row_of(line);
    if (!row.is_null() && wanted.count(row["key"]) && row["status"] != name(Status::failed)) lines_[row["key"]] = line;
  }
  kept_ = lines_.size();
}

/// The log begins anew with the lines that are kept: what belongs to other plans or programs is gone.
void Results::open_log() {
  std::string text;
  for (const auto& [key, line] : lines_) text += line + "\n";
  write_text(path("results.jsonl"), text);
  log_ = ::open(path("results.jsonl").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (log_ < 0)
    refuse(path("results.jsonl"), std::string("cannot be opened: ") + std::strerror(errno),
           "give another folder with --out");
}

void Results::add(const std::string& key, const std::string& line) {
  const std::lock_guard guard(mutex_);
  write_all(log_, line + "\n", path("results.jsonl"));
  ::fsync(log_);
  lines_[key] = line;
}

std::vector<std::string> Results::finish(const Study& study, const std::vector<Candidate>& candidates) {
  std::vector<std::string> lines;
  std::string text;
  for (const Candidate& c : candidates) {
    const auto found = lines_.find(c.key);
    if (found == lines_.end()) continue;
    lines.push_back(placed(found->second, study.points[c.point], study.goal));
    text += lines.back() + "\n";
  }
  write_text(path("results.jsonl"), text);
  write_text(path("results.csv"), csv_of(study, lines));
  write_text(path("study.json"), study.text + "\n");
  return lines;
}

}  // namespace tandem::study
