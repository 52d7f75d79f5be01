#include "exec/tokenizer/unicode/unicode.hpp"

#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/utext.h>

#include <algorithm>
#include <array>
#include <memory>

#include "exec/tokenizer/unicode/later_characters.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr int kIcuVersion = 15;  // what is later comes from later_characters, whatever ICU knows

/// General categories in the order of ICU's UCharCategory.
constexpr std::array<std::string_view, 30> kCategories = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd",
                                                          "Nl", "No", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs", "Pd",
                                                          "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf"};

void check(UErrorCode error) {
  if (U_FAILURE(error)) throw DeviceError(std::string("ICU failed: ") + u_errorName(error));
}

/// True if the character was assigned in a version of Unicode that ICU knows.
bool is_of(char32_t c, int version) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] > 0 && (age[0] < version || (age[0] == version && age[1] == 0));
}

const icu::Normalizer2& whole_normalizer(Form form) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case Form::nfc: found = icu::Normalizer2::getNFCInstance(error); break;
    case Form::nfd: found = icu::Normalizer2::getNFDInstance(error); break;
    case Form::nfkc: found = icu::Normalizer2::getNFKCInstance(error); break;
    case Form::nfkd: found = icu::Normalizer2::getNFKDInstance(error); break;
  }
  check(error);
  return *found;
}

/// Characters that the version of Unicode has, in which forms are computed.
const icu::UnicodeSet& normalized_characters() {
  static const icu::UnicodeSet set = [] {
    UErrorCode error = U_ZERO_ERROR;
    icu::UnicodeSet made(icu::UnicodeString("[:age=") + std::to_string(UnicodeOf::normalization).c_str() + ".0:]", error);
    check(error);
    made.freeze();
    return made;
  }();
  return set;
}

}  // namespace

CharacterSet category(std::string_view name, int version) {
  CharacterSet out;
  for (char32_t c = 0; c < 0x110000; ++c)
    if (kCategories[static_cast<std::size_t>(u_charType(static_cast<UChar32>(c)))].starts_with(name))
      if (is_of(c, std::min(version, kIcuVersion)) || name == "Cs") out.add(c);
  for (const LaterCharacters& later : later_characters())
    if (later.since <= version && later.category.starts_with(name)) out.add(later.first, later.last);
  for (const FormerCategory& former : former_categories())
    if (former.since <= version && version <= former.until)
      former.category.starts_with(name) ? out.add(former.character) : out.remove(former.character);
  return out;
}

const CharacterSet& white_space() {
  static const CharacterSet set = [] {
    CharacterSet made;
    for (char32_t c = 0; c < 0x110000; ++c)
      if (u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE)) made.add(c);
    return made;
  }();
  return set;
}

CharacterSet word_characters() {
  CharacterSet out;
  for (const char* name : {"L", "M", "Nd", "Nl", "Pc"}) out |= category(name, UnicodeOf::pattern);
  for (char32_t c = 0; c < 0x110000; ++c)
    if (u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC) && is_of(c, kIcuVersion)) out.add(c);
  out.add(0x200C, 0x200D);  // Join_Control
  return out;
}

void append_lower(std::string& text, char32_t c) {
  if (c == 0x130) return text += "i\xCC\x87", void();  // SpecialCasing.txt
  const auto lower = static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
  if (lower != c) return append_character(text, lower);
  for (const LaterLetters& later : later_letters())
    if (later.first <= c && c <= later.last && (!later.pairs || (c - later.first) % 2 == 0))
      return append_character(text, static_cast<char32_t>(static_cast<int>(c) + later.distance));
  append_character(text, c);
}

std::string normalized(const std::string& text, Form form) {
  const icu::FilteredNormalizer2 normalizer(whole_normalizer(form), normalized_characters());
  std::string out;
  icu::StringByteSink<std::string> sink(&out, static_cast<std::int32_t>(text.size()));
  UErrorCode error = U_ZERO_ERROR;
  normalizer.normalizeUTF8(0, text, sink, nullptr, error);
  check(error);
  return out;
}

struct GraphemeEnds::State {
  std::unique_ptr<icu::BreakIterator> breaks;
  UText* text = nullptr;
};

GraphemeEnds::GraphemeEnds(const std::string& text) : state_(new State) {
  UErrorCode error = U_ZERO_ERROR;
  state_->breaks.reset(icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), error));
  state_->text = utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &error);
  check(error);
  state_->breaks->setText(state_->text, error);
  check(error);
}

GraphemeEnds::~GraphemeEnds() {
  utext_close(state_->text);
  delete state_;
}

std::size_t GraphemeEnds::next() {
  const std::int32_t end = state_->breaks->next();
  return end == icu::BreakIterator::DONE ? std::string::npos : static_cast<std::size_t>(end);
}

}  // namespace tandem::exec
