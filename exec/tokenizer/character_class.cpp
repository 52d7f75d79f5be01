#include "exec/tokenizer/character_class.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "exec/tokenizer/unicode/unicode.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::array<std::string_view, 35> kCategories = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd",
                                                          "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm",
                                                          "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "C"};

constexpr const char* kAsciiOnly = "has more than ASCII under (?i), which this version does not know";

CharacterSet property(const std::string& name) {
  if (name != "C") return category(name, UnicodeOf::pattern);
  CharacterSet others;
  for (const char* known : {"L", "M", "N", "P", "S", "Z"}) others |= category(known, UnicodeOf::pattern);
  return ~others;
}

/// \p{NAME}, of which `text` is behind the p.
CharacterSet read_property(RegexText& text, bool complement) {
  const std::size_t from = text.at;
  const std::size_t close = text.pattern.find('}', from);
  if (!text.take("{") || close == std::string::npos) text.refuse(from, "names no property");
  if (text.take("^")) complement = !complement;
  const std::string name = text.pattern.substr(text.at, close - text.at);
  if (std::find(kCategories.begin(), kCategories.end(), name) == kCategories.end())
    text.refuse(from, "names a property that this version does not know: it knows general categories, such as \\p{L} or \\p{Nd}");
  text.at = close + 1;
  return complement ? ~property(name) : property(name);
}

/// \x{H...} or \uHHHH, of which `text` is behind the x or u.
char32_t read_code(RegexText& text, bool braces) {
  const std::size_t from = text.at;
  if (braces && !text.take("{")) text.refuse(from - 2, "names a byte; write \\x{...}");
  const std::size_t end = braces ? text.pattern.find('}', text.at) : text.at + 4;
  if (end == std::string::npos) text.refuse(from - 2, "is not closed");
  const std::string digits = text.pattern.substr(text.at, end - text.at);
  const bool hex = !digits.empty() && digits.size() <= 6 && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  const unsigned long code = hex ? std::strtoul(digits.c_str(), nullptr, 16) : 0x110000;
  if (code > 0x10FFFF || (!braces && digits.size() != 4)) text.refuse(from - 2, "is no character");
  text.at = end + (braces ? 1 : 0);
  return static_cast<char32_t>(code);
}

/// \w of Oniguruma: without joiners, and with some numbers of Latin-1.
CharacterSet regex_word() {
  CharacterSet out = word_characters();
  for (const char32_t c : {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}) out.add(c);
  for (const char32_t joiner : {0x200C, 0x200D}) out.remove(joiner);
  return out;
}

CharacterSet hex_digits() {
  CharacterSet out;
  out.add('0', '9'), out.add('a', 'f'), out.add('A', 'F');
  return out;
}

}  // namespace

bool RegexText::take(std::string_view next) {
  if (!sees(next)) return false;
  at += next.size();
  return true;
}

char32_t RegexText::character() {
  if (ended()) refuse(at, "ends too early");
  return next_character(pattern, at);
}

void RegexText::refuse(std::size_t from, const std::string& reason) const {
  const std::string part = pattern.substr(from, std::max(at, from + 1) - from);
  throw ConfigError(Problem{file, field, pattern, "\"" + part + "\" at byte " + std::to_string(from) + " " + reason,
                            "tokenize with the tokenizers library, and give the .bin and .idx of Megatron-LM's preprocess_data.py"});
}

Escape read_escape(RegexText& text) {
  const std::size_t from = text.at;
  const char32_t c = text.character();
  switch (c) {
    case 'p':
    case 'P': return {read_property(text, c == 'P')};
    case 's': return {white_space()};
    case 'S': return {~white_space()};
    case 'd': return {category("Nd", UnicodeOf::pattern)};
    case 'D': return {~category("Nd", UnicodeOf::pattern)};
    case 'w': return {regex_word()};
    case 'W': return {~regex_word()};
    case 'h': return {hex_digits()};
    case 'H': return {~hex_digits()};
    case 'x':
    case 'u': return {std::nullopt, read_code(text, c == 'x')};
    case 'r': return {std::nullopt, '\r'};
    case 'n': return {std::nullopt, '\n'};
    case 't': return {std::nullopt, '\t'};
    case 'f': return {std::nullopt, '\f'};
    case 'v': return {std::nullopt, '\v'};
    default: break;
  }
  if (c < 0x80 && (std::isalnum(static_cast<int>(c)) != 0)) text.refuse(from - 1, "is an escape that this version does not know");
  return {std::nullopt, c};
}

void add_any_case(CharacterSet& set, char32_t c) {
  set.add(c);
  const char32_t lower = c | 0x20;
  if (lower < 'a' || lower > 'z') return;
  set.add(lower), set.add(lower & ~char32_t{0x20});
  if (lower == 's') set.add(0x17F);
  if (lower == 'k') set.add(0x212A);
}

CharacterSet read_class(RegexText& text, bool any_case) {
  const std::size_t from = text.at - 1;
  const bool negated = text.take("^");
  if (text.sees("]")) text.refuse(from, "begins with a bracket; escape it");
  CharacterSet set;
  while (!text.take("]")) {
    if (text.sees("[") || text.sees("&&")) text.refuse(from, "has a class in a class, which this version does not know");
    const bool escaped = text.take("\\");
    Escape begin = escaped ? read_escape(text) : Escape{std::nullopt, text.character()};
    const bool range = text.sees("-") && !text.sees("-]") && (escaped || begin.character != '-');
    if (begin.set && range) text.refuse(from, "has a range that begins with a set");
    if (any_case && (begin.set || begin.character >= 0x80)) text.refuse(from, kAsciiOnly);
    if (begin.set) {
      set |= *begin.set;
      continue;
    }
    char32_t last = begin.character;
    if (range && text.take("-")) {
      Escape end = text.take("\\") ? read_escape(text) : Escape{std::nullopt, text.character()};
      if (end.set || end.character < last || (any_case && end.character >= 0x80)) text.refuse(from, "has a range without an end");
      last = end.character;
    }
    if (!any_case) set.add(begin.character, last);
    for (char32_t c = begin.character; any_case && c <= last; ++c) add_any_case(set, c);
  }
  if (any_case && negated) text.refuse(from, "is negated under (?i), which this version does not know");
  return negated ? ~set : set;
}

}  // namespace tandem::exec
