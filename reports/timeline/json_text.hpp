#pragma once
// Writes long JSON directly as text: a timeline has millions of numbers, and a tree of them is not needed.

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

/// `s` as a JSON string, quotes and escapes included. Bytes that are not UTF-8 become U+FFFD.
std::string quoted(std::string_view s);

/// Appends an integer in decimal.
inline void append_number(std::string& out, std::int64_t value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

/// Appends "[1,2,3]".
template <class Range>
void append_list(std::string& out, const Range& values) {
  out += '[';
  const char* separator = "";
  for (const auto& v : values) {
    out += separator;
    append_number(out, v);
    separator = ",";
  }
  out += ']';
}

}  // namespace tandem
