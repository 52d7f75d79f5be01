#pragma once
// A calendar month: the date of a framework's code.

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

/// A month of the Gregorian calendar. A month without a year (0) means "not said".
struct Month {
  int year = 0;
  int month = 0;  ///< 1 to 12

  bool said() const { return year != 0; }
  auto operator<=>(const Month&) const = default;
};

/// Reads "2024-07"; nothing where the text has another form or no such month exists.
std::optional<Month> parse_month(std::string_view text);

/// Writes "2024-07".
std::string text_of(const Month& month);

}  // namespace tandem
