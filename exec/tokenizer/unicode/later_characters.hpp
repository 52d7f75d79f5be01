#pragma once
// Characters that Unicode got after version 15.0, which ICU 72 has, and categories that changed.
// Source: Unicode Character Database 9.0 to 17.0, DerivedAge.txt, DerivedGeneralCategory.txt and UnicodeData.txt.

#include <span>
#include <string_view>

namespace tandem::exec {

/// Characters `first` to `last` of a general category; since a version of Unicode.
struct LaterCharacters {
  char32_t first, last;
  std::string_view category;
  int since = 16;
};

/// In versions `since` to `until` the character had this category.
struct FormerCategory {
  char32_t character;
  std::string_view category;
  int since, until;
};

/// Upper case letters whose lower case is `distance` further; those of every second character if `pairs`.
struct LaterLetters {
  char32_t first, last;
  int distance;
  bool pairs = false;
};

std::span<const LaterCharacters> later_characters();
std::span<const FormerCategory> former_categories();
std::span<const LaterLetters> later_letters();

}  // namespace tandem::exec
