#include "reports/timeline/json_scanner.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/base/text.hpp"

namespace tandem {

namespace {

constexpr std::size_t kHead = 4096;
constexpr std::size_t kDigits = 24;  ///< more than a number of 64 bits has
constexpr std::size_t kLongestName = std::size_t{1} << 16;
const char* const kCutShort = "the file ends before the value is complete";

bool blank(int c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

const char* kind_of(int c) {
  switch (c) {
    case -1: return "nothing";
    case '{': return "an object";
    case '[': return "a list";
    case '"': return "a string";
    case 't':
    case 'f': return "true or false";
    case 'n': return "null";
    default: return (c >= '0' && c <= '9') || c == '-' ? "a number" : "no JSON value";
  }
}

}  // namespace

JsonScanner::JsonScanner(InputFile& file, const std::string& path, const Wanted& wanted)
    : file_(file), path_(path), wanted_(wanted) {
  if (file_.size().value_or(0) > wanted_.max_bytes) refuse("", "is larger than " + std::to_string(wanted_.max_bytes >> 30) + " GiB");
  const std::string_view head = file_.head(kHead);
  if (head.empty()) refuse("", "is empty");
  if (head.find(wanted_.marker) == std::string_view::npos)
    refuse("", "is not " + wanted_.kind + ": its first bytes do not say " + wanted_.marker);
}

bool JsonScanner::fill() {
  at_ = 0;
  block_ = file_.block();
  read_ += block_.size();
  if (read_ > wanted_.max_bytes) refuse("", "is larger than " + std::to_string(wanted_.max_bytes >> 30) + " GiB");
  return !block_.empty();
}

/// The next character that is not blank, without consuming it; -1 at the end.
int JsonScanner::solid() {
  while (blank(peek())) ++at_;
  return peek();
}

void JsonScanner::expect(char c, const char* what) {
  const int found = solid();
  if (found == -1) refuse("", kCutShort);
  if (found != c) refuse(std::string(1, static_cast<char>(found)), std::string(what) + " must stand here");
  ++at_;
}

void JsonScanner::open(bool list) {
  if (depth_ == kDepth) refuse("", "brackets are nested deeper than " + std::to_string(kDepth));
  ++at_;
  Level& level = levels_[depth_++];
  level.list = list;
  level.entries = 0;
  level.key.clear();
  level.keys.clear();
}

void JsonScanner::begin_object() {
  if (solid() != '{') refuse_kind("an object");
  open(false);
}

void JsonScanner::begin_list() {
  if (solid() != '[') refuse_kind("a list");
  open(true);
}

bool JsonScanner::next_key(std::string& key) {
  Level& level = levels_[depth_ - 1];
  if (solid() == '}') {
    ++at_, --depth_;
    return false;
  }
  if (level.entries++ > 0) expect(',', "a comma or a closing bracket");
  if (solid() != '"') refuse("", solid() == -1 ? kCutShort : "a key in double quotes must stand here");
  key = string();
  level.key = key;
  if (std::find(level.keys.begin(), level.keys.end(), key) != level.keys.end()) refuse("", "this key is given twice");
  level.keys.push_back(key);
  expect(':', "a colon");
  return true;
}

bool JsonScanner::next_entry() {
  Level& level = levels_[depth_ - 1];
  if (solid() == ']') {
    ++at_, --depth_;
    return false;
  }
  if (level.entries++ > 0) expect(',', "a comma or a closing bracket");
  return true;
}

/// Fast path for a number whose digits all lie in the block; false if the general path must read it.
bool JsonScanner::plain_whole(std::int64_t& value) {
  if (block_.size() - at_ < kDigits) return false;
  const char* from = block_.data() + at_;
  const auto [end, error] = std::from_chars(from, from + kDigits, value);
  if (error != std::errc() || end == from + kDigits || (*end != ',' && *end != ']') || (*from == '0' && end != from + 1)) return false;
  at_ += static_cast<std::size_t>(end - from);
  return true;
}

std::int64_t JsonScanner::whole() {
  int c = solid();
  std::int64_t quick = 0;
  if (c != '-' && plain_whole(quick)) return quick;
  if (c != '-' && (c < '0' || c > '9')) refuse_kind("a whole number");
  std::string digits;
  for (; (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'; ++at_, c = peek())
    if (digits.size() < kHead) digits += static_cast<char>(c);
  const std::size_t sign = digits[0] == '-' ? 1 : 0;
  const bool plain = digits.size() > sign && digits.find_first_not_of("0123456789", sign) == std::string::npos &&
                     (digits[sign] != '0' || digits.size() == sign + 1);
  if (!plain) refuse(digits, "a whole number belongs here");
  std::uint64_t value = 0;
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  for (const char d : digits.substr(sign)) {
    const auto digit = static_cast<std::uint64_t>(d - '0');
    if (value > (most - digit) / 10) refuse(digits, "is beyond 64 bits");
    value = 10 * value + digit;
  }
  return sign == 1 ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
}

std::int32_t JsonScanner::small_whole() {
  const std::int64_t value = whole();
  if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max())
    refuse(std::to_string(value), "is beyond 32 bits");
  return static_cast<std::int32_t>(value);
}

std::string JsonScanner::string() {
  if (solid() != '"') refuse_kind("a string");
  std::string text;
  copy_string(&text, kLongestName);
  return parse_json(text, path_).get<std::string>();
}

/// Copies a string with its quotes; escapes are not decoded.
void JsonScanner::copy_string(std::string* out, std::size_t max_bytes) {
  bool escaped = false;
  for (bool first = true;; first = false) {
    const int c = peek();
    if (c == -1) refuse("", kCutShort);
    ++at_;
    if (out != nullptr) *out += static_cast<char>(c);
    if (out != nullptr && out->size() > max_bytes) refuse("", "is longer than " + std::to_string(max_bytes) + " bytes");
    if (c == '"' && !escaped && !first) return;
    escaped = c == '\\' && !escaped;
  }
}

void JsonScanner::copy_scalar(std::string* out) {
  std::size_t bytes = 0;  // of this scalar: `out` may hold a whole table before it
  for (int c = peek(); c != -1 && !blank(c) && c != ',' && c != ']' && c != '}' && c != ':'; ++at_, c = peek()) {
    if (out == nullptr) continue;
    if (++bytes > kLongestName) refuse("", "is longer than " + std::to_string(kLongestName) + " bytes");
    *out += static_cast<char>(c);
  }
}

/// Copies the next value and only matches its brackets; a parser checks the rest.
void JsonScanner::copy(std::string* out, std::size_t max_bytes) {
  std::size_t inside = 0;
  do {
    const int c = solid();
    if (c == -1) refuse("", kCutShort);
    if (c == '"') {
      copy_string(out, max_bytes);
      continue;
    }
    if (c == '{' || c == '[') ++inside;
    if (c == '}' || c == ']') {
      if (inside == 0) refuse(std::string(1, static_cast<char>(c)), "a value must stand here");
      --inside;
    }
    if (inside > kDepth) refuse("", "brackets are nested deeper than " + std::to_string(kDepth));
    if (c == '{' || c == '[' || c == '}' || c == ']' || c == ',' || c == ':') {
      ++at_;
      if (out != nullptr) *out += static_cast<char>(c);
    } else {
      if (out != nullptr) *out += ' ';  // keeps two values apart that lack a comma
      copy_scalar(out);
    }
    if (out != nullptr && out->size() > max_bytes) refuse("", "is longer than " + std::to_string(max_bytes >> 20) + " MiB");
  } while (inside > 0);
}

std::string JsonScanner::raw(std::size_t max_bytes) {
  std::string text;
  copy(&text, max_bytes);
  return text;
}

void JsonScanner::skip() { copy(nullptr, 0); }

void JsonScanner::end() {
  if (solid() != -1) refuse("", "there is text behind the end of the value");
}

std::string JsonScanner::place(const std::string& field) const {
  std::string out;
  for (std::size_t l = 0; l < depth_; ++l) {
    const Level& level = levels_[l];
    if (level.list && level.entries > 0) out += "[" + std::to_string(level.entries - 1) + "]";
    if (!level.list && !level.key.empty()) out += (out.empty() ? "" : ".") + level.key;
  }
  return out + (out.empty() || field.empty() ? "" : ".") + field;
}

void JsonScanner::refuse(const std::string& value, const std::string& reason, const std::string& field) const {
  throw ConfigError(Problem{path_, place(field), shortened(value), reason, wanted_.remedy});
}

void JsonScanner::refuse_kind(const char* wanted) {
  const int found = solid();
  if (found == -1) refuse("", kCutShort);
  std::string value;
  if (found != '{' && found != '[' && found != '"') copy_scalar(&value);
  refuse(value, std::string("is ") + kind_of(found) + " where " + wanted + " belongs");
}

}  // namespace tandem
