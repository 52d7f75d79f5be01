#pragma once
// Whether a comparison is within its tolerances.

#include <optional>
#include <string>
#include <vector>

#include "reports/compare/compare.hpp"

namespace tandem {

/// Largest accepted errors as shares: 0.05 is 5 %. Nothing: not judged.
struct Tolerances {
  std::optional<double> step_time, memory;
};

enum class Verdict : std::uint8_t {
  not_asked,
  within,
  undecided,  ///< the steps' spread reaches from within the tolerance to outside
  outside,
};

struct Judgement {
  Tolerances tolerances;
  Verdict step_time = Verdict::not_asked, memory = Verdict::not_asked, tasks = Verdict::not_asked;
  Verdict verdict = Verdict::not_asked;  ///< the worst of them
};

std::string_view name(Verdict verdict);

/// The verdict on an error that lies somewhere from `low` to `high`. `one_performer`: only a positive error is a fault.
Verdict judged(double low, double high, double tolerance, bool one_performer);

/// Judges the step time by the medians of all recorded steps and their spread. With the same performer only a longer step than the
/// baseline's is outside. Tasks without a counterpart are outside if the plans are equal.
Judgement judge(const Comparison& comparison, const Tolerances& tolerances);

/// One line for every verdict that is outside or undecided.
std::vector<std::string> reasons(const Comparison& comparison, const Judgement& judgement);

/// Throws ConfigError if two runs are to be judged and one has less than three steps that count: its spread is not known.
void require_judgeable(const Comparison& comparison, const Tolerances& tolerances, const std::string& first_path,
                       const std::string& second_path);

/// A table for people.
std::string to_text(const Comparison& comparison, const Judgement& judgement);

/// All lines as CSV.
std::string to_csv(const Comparison& comparison);

/// The keys of `tandem compare --json` (docs/reference/json-keys.md); times in seconds, errors as fractions.
std::string to_json(const Comparison& comparison, const Judgement& judgement);

}  // namespace tandem
