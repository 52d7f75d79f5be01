#pragma once
// The date of a measurement.

#include <ctime>
#include <string>

namespace tandem::exec {

/// The date in UTC, like "2026-01-31".
inline std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[sizeof "2026-01-01"];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

}  // namespace tandem::exec
