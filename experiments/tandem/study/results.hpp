#pragma once
// The output folder of a sweep: results.jsonl grows line by line, results.csv and the rest are written when it is done.

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "experiments/tandem/study/outcome.hpp"

namespace tandem::study {

class Results {
 public:
  /// Makes the folder and reads what earlier sweeps left there. Rows of `candidates` count as computed unless `fresh`; other rows at
  /// points of the study are of another plan or program and are dropped; rows at other points are kept behind the study's. A line
  /// without a row (row.hpp) is dropped: cut off by a crash, changed by hand, or of a version without checksums. Holds the folder
  /// against other sweeps while it lives. Throws ConfigError, also where what is there was written by something else.
  Results(std::string folder, const Study& study, const std::vector<Candidate>& candidates, bool fresh);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  bool has(const std::string& key) const { return rows_.count(key) != 0; }
  std::size_t kept() const { return kept_; }
  std::size_t unsound() const { return unsound_; }  ///< lines that were dropped

  /// Appends a result whole and to the disk. Safe from several threads. Throws ConfigError when the disk refuses.
  void add(const std::string& key, const std::string& row);

  /// Writes results.jsonl and results.csv in the study's order (points without result left out) and study.json. Returns
  /// the rows, without their checksums.
  std::vector<std::string> finish(const Study& study, const std::vector<Candidate>& candidates);

 private:
  std::string path(const char* file) const { return folder_ + "/" + file; }
  void lock();
  void require_own_files(const std::string& log) const;
  void read_kept(const std::string& log, const Study& study, const std::vector<Candidate>& candidates, bool fresh);
  void open_log();

  std::string folder_;
  std::map<std::string, std::string> rows_;  ///< by key
  std::vector<std::string> others_;          ///< rows at points that the study has not
  std::size_t kept_ = 0, unsound_ = 0;
  int lock_ = -1, log_ = -1;
  std::mutex mutex_;
};

/// Results as a table for spreadsheets (RFC 4180): one row a line, a column for every axis and figure.
std::string csv_of(const Study& study, const std::vector<std::string>& lines);

}  // namespace tandem::study
