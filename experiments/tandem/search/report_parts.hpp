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
  /// `remedy`: what shortens the step.
  void add(std::size_t row, const std::string& remedy, const Simulated& s);
  std::string text() const;

 private:
  struct Rows {
    std::vector<std::string> rows;
    std::int64_t least = 100, most = 0;  ///< of a step, %
  };
  std::map<std::string, Rows> by_remedy_;
};

/// Whether a step fits only if the prediction of its memory is not far too low, as `tandem plan` judges it.
bool is_tight(std::int64_t needed, std::int64_t room);
/// Why tight memory may not suffice.
std::string tight_reason();
/// Remarks about one row: on the host, and on tight memory.
std::vector<std::string> notes_of(const Judge& judge, const Simulated& s);
nlohmann::ordered_json notes_json(const Judge& judge, const Simulated& s);

/// The lines of a text, each of which ends.
std::vector<std::string> lines_of(const std::string& text);

/// What predictions for the judge's device should be read with, as lines; empty: nothing.
std::string caveat_text(const Judge& judge);

/// Remarks about rows by their text, for a line each: "memory is tight, rows 1 and 2: ...".
using Remarks = std::map<std::string, std::vector<std::string>>;
std::string remarks_text(const std::string& what, const Remarks& remarks);

/// The values of an axis that default_axes() cut off and that might be faster: "micro_batch_size=64,128", if the fastest row has the
/// largest value and its data ranks' batches divide into larger ones; else empty.
std::string cut_off(const Space& space, const Answer& answer);

/// Values that the command chose because none were given, and axes that were not searched; a line each.
std::string question_text(const Question& question);

/// How far searches had come when they were interrupted.
std::string interrupted_text(const std::vector<const Search*>& searches);

/// If bounds were wrong: that this is an error of Tandem, what it may have cost, and an example. Else empty.
std::string wrong_bounds_text(const Search& search, const Answer& answer);

/// How many candidates are under each reason.
std::string counts_text(const Answer& answer);
nlohmann::ordered_json counts_json(const Answer& answer);

/// An axis' value as it is written in a plan file.
nlohmann::ordered_json value_json(const std::string& text);
/// Values of a candidate's axes, of what it turns on, and parallel.data.
nlohmann::ordered_json at_json(const Space& space, CandidateId id);

}  // namespace tandem::search
