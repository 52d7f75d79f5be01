#include "experiments/tandem/study/results.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "experiments/tandem/study/row.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"

namespace tandem::study {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kLargest = std::size_t{4} << 30;  // of a log

[[noreturn]] void refuse(const std::string& path, const std::string& reason, const std::string& remedy) {
  throw ConfigError(Problem{path, "", "", reason, remedy});
}

/// A row with this point's own `at`, since another point with the same plan may have written it, and with the study's goal applied.
std::string placed(const std::string& text, const Point& point, const std::optional<Goal>& goal) {
  ordered_json row = ordered_json::parse(text);
  row["at"] = ordered_json::parse(point.at);
  add_goal(row, goal);
  return row.dump();
}

}  // namespace

Results::Results(std::string folder, const Study& study, const std::vector<Candidate>& candidates, bool fresh)
    : folder_(std::move(folder)) {
  if (const std::error_code failed = make_folders(folder_); failed)
    refuse(folder_, "cannot be made: " + failed.message(), "give another folder with --out");
  lock_ = std::make_unique<FileLock>(path("lock"), folder_);
  const std::string file = path("results.jsonl");
  permit_replacing(file, file);
  const std::string log = file_state(file).kind == FileKind::absent ? "" : read_text(file, kLargest);
  require_own_files(log);
  read_kept(log, study, candidates, fresh);
  open_log();
}

/// Refuses files of other programs: a sweep's results.jsonl begins with a row, intact or not.
void Results::require_own_files(const std::string& log) const {
  const std::string remedy = "give another folder with --out, or move the file away";
  if (has_rows(log)) return;
  if (!log.empty()) refuse(path("results.jsonl"), "holds no row of a sweep and would be written over", remedy);
  for (const char* file : {"results.csv", "study.json"})
    if (file_state(path(file)).kind != FileKind::absent)
      refuse(path(file), "was not written by a sweep, which leaves results.jsonl beside it, and would be written over", remedy);
}

void Results::read_kept(const std::string& log, const Study& study, const std::vector<Candidate>& candidates, bool fresh) {
  std::set<std::string> wanted;
  std::set<json> points;
  for (const Candidate& c : candidates) wanted.insert(c.key);
  for (const Point& p : study.points) points.insert(json::parse(p.at));
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const std::string text = unsealed(line);
    if (text.empty()) {
      ++unsound_;
      continue;
    }
    const json row = json::parse(text);
    if (!points.contains(row["at"]))
      others_.push_back(text);
    else if (!fresh && wanted.contains(row["key"]) && row["status"] != name(Status::failed))
      rows_[row["key"]] = text;
  }
  kept_ = rows_.size();
}

/// Rewrites the log with the kept lines only.
void Results::open_log() {
  std::string text;
  for (const auto& [key, row] : rows_) text += sealed(row) + "\n";
  for (const std::string& row : others_) text += sealed(row) + "\n";
  write_text(path("results.jsonl"), text);
  log_ = std::make_unique<AppendedFile>(path("results.jsonl"));
}

void Results::add(const std::string& key, const std::string& row) {
  const std::lock_guard guard(mutex_);
  if (const std::error_code failed = log_->add(sealed(row) + "\n"); failed)
    refuse(path("results.jsonl"), "cannot be written: " + failed.message(), "make room");
  log_->flush();
  rows_[key] = row;
}

std::vector<std::string> Results::finish(const Study& study, const std::vector<Candidate>& candidates) {
  std::vector<std::string> rows;
  std::string text;
  for (const Candidate& c : candidates) {
    const auto found = rows_.find(c.key);
    if (found == rows_.end()) continue;
    rows.push_back(placed(found->second, study.points[c.point], study.goal));
    text += sealed(rows.back()) + "\n";
  }
  for (const std::string& row : others_) text += sealed(row) + "\n";
  write_text(path("results.jsonl"), text);
  write_text(path("results.csv"), csv_of(study, rows));
  write_text(path("study.json"), study.text + "\n");
  return rows;
}

}  // namespace tandem::study
