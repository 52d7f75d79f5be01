#pragma once
// What the lines and the tables of an answer have in common. Private to experiments/tandem/planning.

#include <string>

#include "experiments/tandem/planning/answer.hpp"

namespace tandem::planning {

/// "  money       ...", a line of an answer; an empty name continues the line before.
std::string line(const std::string& what, const std::string& value);

/// Four significant digits: "1,720,000", "34.7".
std::string figure(double value);

/// "1,720 USD (1,500 to 1,900)"; without a range if there is none.
std::string ranged(const Ranged& r, const std::string& unit = "");

std::string percent(double share);  ///< "7.4 %"

/// "238,419": tokens are steps times batch, so every digit is shown.
std::string steps_text(double steps);

/// A probability. Never shows certainty, because errors are known from only tens of records.
std::string likelihood(double share);

/// A time from ns to days.
std::string span_text(double seconds);

/// The unit of times: days, or hours where the best plan takes less than a day.
struct Span {
  std::string name;
  double in_a_day = 1;
  double of(double days) const { return days * in_a_day; }
};
Span span_of(const Budget& best);

/// The money, "-" without a price.
std::string money_short(const Budget& b);

/// Degrees above 1, micro-batch, ZeRO stage and recomputation, in the words of --axis: "dp 64, tp 8, mbs 1".
std::string short_layout(const Plan& plan);

/// A table of the best plan's phases, if there are several.
std::string phases_text(const Answer& a);
/// A table of the plans that were compared, if there are several.
std::string options_text(const Answer& a);
/// Reasons for which plans are impossible.
std::string refused_text(const Answer& a);
std::string what_if_text(const Answer& a);  ///< a line for each change
std::string tornado_text(const Answer& a);  ///< a table of inputs

}  // namespace tandem::planning
