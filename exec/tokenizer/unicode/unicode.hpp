#pragma once
// Properties of characters, as ICU has them. The tokenizers library of Hugging Face has several versions of Unicode in one program:
// each of its parts has tables of its own. So a caller says the version, and what ICU does not know yet is in later_characters.

#include <string>
#include <string_view>

#include "exec/tokenizer/unicode/character_set.hpp"

namespace tandem::exec {

/// Versions of Unicode in parts of tokenizers 0.23, found by asking the library for each character.
struct UnicodeOf {
  static constexpr int control = 7;       ///< BertNormalizer: control and format characters
  static constexpr int bert = 8;          ///< punctuation, and marks that BertNormalizer strips
  static constexpr int normalization = 9;  ///< NFC to NFKD, StripAccents
  static constexpr int pattern = 16;      ///< regular expressions
  static constexpr int number = 17;       ///< Digits
};

/// The characters of a general category ("L", "Nd") in a version of Unicode.
CharacterSet category(std::string_view name, int version);

/// White_Space; the same characters since Unicode 6.3.
const CharacterSet& white_space();

/// \w of Unicode TS 18: letters and other alphabetic characters, marks, decimal digits, connectors and joiners.
CharacterSet word_characters();

/// Appends the lower case of one character.
void append_lower(std::string& text, char32_t c);

enum class Form { nfc, nfd, nfkc, nfkd };

/// `text` in a normalization form of Unicode 9.
std::string normalized(const std::string& text, Form form);

/// Where the user-perceived characters (grapheme clusters) of `text` end, in bytes.
class GraphemeEnds {
 public:
  explicit GraphemeEnds(const std::string& text);
  ~GraphemeEnds();
  GraphemeEnds(const GraphemeEnds&) = delete;
  GraphemeEnds& operator=(const GraphemeEnds&) = delete;
  /// The next end; npos behind the last.
  std::size_t next();

 private:
  struct State;
  State* state_;
};

}  // namespace tandem::exec
