#pragma once
// The output folder of a sweep. results.jsonl grows line by line; results.csv and the rest are written at the end.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "experiments/tandem/study/outcome.hpp"
#include "models/base/appended_file.hpp"
#include "models/base/file_lock.hpp"

namespace tandem::study {

class Results {
 public:
  /// Creates the folder and reads earlier results. Rows of `candidates` count as computed unless `fresh`. Other rows at points of
  /// the study belong to another plan or program and are dropped. Rows at other points are kept after the study's. Invalid lines
  /// (row.hpp) are dropped: cut off, edited, or without checksum. Locks the folder against other sweeps with its file `lock`. Throws
  /// ConfigError, also if other files are there.
  Results(std::string folder, const Study& study, const std::vector<Candidate>& candidates, bool fresh);

  bool has(const std::string& key) const { return rows_.count(key) != 0; }
  std::size_t kept() const { return kept_; }
  std::size_t unsound() const { return unsound_; }  ///< number of dropped lines

  /// Appends a whole result and flushes it to disk. Thread-safe. Throws ConfigError if that fails.
  void add(const std::string& key, const std::string& row);

  /// Writes results.jsonl and results.csv in the study's order (points without result omitted), and study.json. Returns the rows
  /// without checksums.
  std::vector<std::string> finish(const Study& study, const std::vector<Candidate>& candidates);

 private:
  std::string path(const char* file) const { return folder_ + "/" + file; }
  void require_own_files(const std::string& log) const;
  void read_kept(const std::string& log, const Study& study, const std::vector<Candidate>& candidates, bool fresh);
  void open_log();

  std::string folder_;
  std::map<std::string, std::string> rows_;  ///< by key
  std::vector<std::string> others_;          ///< rows at points outside the study
  std::size_t kept_ = 0, unsound_ = 0;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<AppendedFile> log_;
  std::mutex mutex_;
};

/// Results as CSV (RFC 4180): one line per row, one column per axis and figure.
std::string csv_of(const Study& study, const std::vector<std::string>& lines);

}  // namespace tandem::study
