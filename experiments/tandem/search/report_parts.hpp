#pragma once
// What the reports of a search have in common.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/search/search.hpp"
#include "models/base/json.hpp"

namespace tandem::search {

double seconds(std::int64_t ps);

/// "gpt3-175b on 64 devices of dgx-a100-80gb, ..., stack megatron-core as of 2026-08".
std::string title(const Space& space);

/// Axes with more than one value, by index.
std::vector<std::size_t> columns(const Space& space);

/// Columns of text, each as wide as its widest word. A last column headed "layout" begins at its left.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : words_last_(head.back() == "layout") { add(std::move(head)); }
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  bool words_last_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

/// "row 3", "rows 1 and 2".
std::string rows_text(const std::vector<std::string>& rows);

/// Rows of a report whose step the host limits, one line for each thing that would shorten it.
class HostLimited {
 public:
  void add(std::size_t row, const Judge& judge, const Simulated& s);
  std::string text() const;

 private:
  struct Rows {
    std::vector<std::string> rows;
    std::int64_t least = 100, most = 0;  ///< of a step, %
  };
  std::map<std::string, Rows> by_remedy_;
};

/// Remarks about one row.
nlohmann::ordered_json notes_json(const Judge& judge, const Simulated& s);

/// Values that the command chose because none were given, and axes that were not searched; a line each.
std::string question_text(const Question& question);

/// How far searches had come when they were interrupted.
std::string interrupted_text(const std::vector<const Search*>& searches);

/// How many candidates are under each reason.
std::string counts_text(const Answer& answer);
nlohmann::ordered_json counts_json(const Answer& answer);

/// An axis' value as it is written in a plan file.
nlohmann::ordered_json value_json(const std::string& text);
/// Values of a candidate's axes, and parallel.data.
nlohmann::ordered_json at_json(const Space& space, CandidateId id);

}  // namespace tandem::search
