#include "experiments/tandem/planning/answer_parts.hpp"

#include <algorithm>
#include <cmath>

#include "reports/prediction/text.hpp"

namespace tandem::planning {

std::string line(const std::string& what, const std::string& value) { return "  " + padded(what, 12) + value + "\n"; }

std::string figure(double value) {
  if (value < 1000) return number_text(value, value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3);
  const double digit = std::pow(10, std::max(0.0, std::floor(std::log10(value)) - 3));
  const double rounded = std::round(value / digit) * digit;
  return rounded < 9e15 ? count_text(std::llround(rounded)) : number_text(rounded, 0);
}

Span span_of(const Budget& best) { return best.days.value < 1 ? Span{"hours", 24} : Span{"days", 1}; }

std::string ranged(const Ranged& r, const std::string& unit) {
  return figure(r.value) + unit + (r.low < r.high ? " (" + figure(r.low) + " to " + figure(r.high) + ")" : "");
}

std::string percent(double share) { return number_text(100 * share, 1) + " %"; }

std::string steps_text(double steps) { return steps < 9e15 ? count_text(std::llround(steps)) : figure(steps); }

std::string likelihood(double share) {
  if (share > 0.99) return "over 99 %";
  if (share < 0.01) return "under 1 %";
  return number_text(100 * share, 0) + " %";
}

std::string span_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds < kMinute * 2) return time_text(seconds);
  if (seconds < kHour * 2) return number_text(seconds / kMinute, 1) + " min";
  return seconds < kDay * 2 ? number_text(seconds / kHour, 1) + " h" : number_text(seconds / kDay, 1) + " days";
}

std::string money_short(const Budget& b) { return b.money ? figure(b.money->value) : "no price"; }

}  // namespace tandem::planning
