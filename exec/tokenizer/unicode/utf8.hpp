#pragma once
// Characters of UTF-8 texts.

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::exec {

/// The character at text[at]; moves `at` behind it. The text must be valid.
inline char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return ++at, lead;
  char32_t c = 0;
  if (lead < 0xE0) return c = (lead & 0x1F) << 6 | (byte(1) & 0x3F), at += 2, c;
  if (lead < 0xF0) return c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), at += 3, c;
  return c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), at += 4, c;
}

/// Where the character starts that ends at `at`, which is not 0.
inline std::size_t character_before(std::string_view text, std::size_t at) {
  do --at;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

/// Appends a character.
inline void append_character(std::string& text, char32_t c) {
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) return add(c);
  if (c < 0x800) return add(0xC0 | c >> 6), add(0x80 | (c & 0x3F));
  if (c < 0x10000) return add(0xE0 | c >> 12), add(0x80 | (c >> 6 & 0x3F)), add(0x80 | (c & 0x3F));
  add(0xF0 | c >> 18), add(0x80 | (c >> 12 & 0x3F)), add(0x80 | (c >> 6 & 0x3F)), add(0x80 | (c & 0x3F));
}

/// True if all characters are ASCII.
inline bool is_ascii(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  return true;
}

/// Offset of the first byte that is not UTF-8 (RFC 3629); npos if there is none.
std::size_t invalid_utf8(std::string_view text);

}  // namespace tandem::exec
