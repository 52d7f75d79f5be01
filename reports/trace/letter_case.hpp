#pragma once
// Small letters, for names whose letter case does not count. Private to reports/trace.

#include <string>

namespace tandem {

/// The small letter of A to Z; other characters stay.
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// The text with small letters for A to Z.
inline std::string lower(std::string text) {
  for (char& c : text) c = lower(c);
  return text;
}

}  // namespace tandem
