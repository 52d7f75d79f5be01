#pragma once
// Sets of characters that regular expressions name: escapes, properties and classes in brackets.

#include <cstddef>
#include <optional>
#include <string>

#include "exec/tokenizer/unicode/character_set.hpp"

namespace tandem::exec {

/// An expression while it is read.
struct RegexText {
  std::string pattern, file, field;
  std::size_t at = 0;

  bool ended() const { return at >= pattern.size(); }
  bool sees(std::string_view next) const { return pattern.compare(at, next.size(), next) == 0; }
  /// Moves behind `next` if it comes next.
  bool take(std::string_view next);
  /// The next character; moves behind it.
  char32_t character();
  /// Throws ConfigError that names what stands at `from` and why it is refused.
  [[noreturn]] void refuse(std::size_t from, const std::string& reason) const;
};

/// What an escape means: a set, or one character.
struct Escape {
  std::optional<CharacterSet> set;
  char32_t character = 0;
};

/// Reads an escape, of which `text` is behind the backslash.
Escape read_escape(RegexText& text);

/// Reads a class in brackets, of which `text` is behind the opening one. `any_case`: (?i) holds, under which only ASCII is read.
CharacterSet read_class(RegexText& text, bool any_case);

/// Adds the other cases of an ASCII letter, with the two characters beyond ASCII that fold to one.
void add_any_case(CharacterSet& set, char32_t c);

}  // namespace tandem::exec
