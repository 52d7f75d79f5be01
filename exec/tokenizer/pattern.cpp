#include "exec/tokenizer/pattern.hpp"

#include <optional>
#include <utility>

#include "exec/tokenizer/regex.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {
namespace {

using Take = std::function<void(const Segment&)>;

class StringPattern final : public Pattern {
 public:
  explicit StringPattern(std::string sought) : sought_(std::move(sought)) {}

  void cut(std::string_view text, const Take& take) override {
    std::size_t done = 0;
    for (std::size_t at = text.find(sought_); at != std::string_view::npos; at = text.find(sought_, done)) {
      if (done != at) take({done, at, false});
      done = at + sought_.size();
      take({at, done, true});
    }
    if (done != text.size()) take({done, text.size(), false});
  }

 private:
  std::string sought_;
};

class SetPattern final : public Pattern {
 public:
  explicit SetPattern(CharacterSet set) : set_(std::move(set)) {}

  void cut(std::string_view text, const Take& take) override {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (!set_.has(next_character(text, at))) continue;
      if (done != begin) take({done, begin, false});
      take({begin, at, true});
      done = at;
    }
    if (done != text.size()) take({done, text.size(), false});
  }

 private:
  CharacterSet set_;
};

class RegexPattern final : public Pattern {
 public:
  explicit RegexPattern(RegexProgram program) : regex_(std::move(program)) {}

  void cut(std::string_view text, const Take& take) override {
    std::size_t done = 0;
    std::optional<std::size_t> last_end;
    for (std::size_t from = 0; from <= text.size();) {
      const auto found = regex_.find(text, from);
      if (!found) break;
      const auto [begin, end] = *found;
      if (begin == end && last_end == end) {  // no empty match right behind a match
        if (from == text.size()) break;
        next_character(text, from);
        continue;
      }
      if (done != begin) take({done, begin, false});
      take({begin, end, true});
      done = end, from = end, last_end = end;
    }
    if (done != text.size()) take({done, text.size(), false});
  }

 private:
  Regex regex_;
};

}  // namespace

std::unique_ptr<Pattern> string_pattern(std::string text) { return std::make_unique<StringPattern>(std::move(text)); }

std::unique_ptr<Pattern> set_pattern(CharacterSet set) { return std::make_unique<SetPattern>(std::move(set)); }

std::unique_ptr<Pattern> regex_pattern(const std::string& expression, const std::string& file, const std::string& field) {
  return std::make_unique<RegexPattern>(compile_regex(expression, file, field));
}

std::unique_ptr<Pattern> read_pattern(const Place& place) {
  place.require_keys({"String", "Regex"});
  const auto string = place.maybe("String"), regex = place.maybe("Regex");
  if (string.has_value() == regex.has_value()) place.refuse("is neither {\"String\": ...} nor {\"Regex\": ...}");
  if (regex) return regex_pattern(regex->text(), regex->file(), regex->field());
  if (string->text().empty()) string->refuse("is empty, and would match everywhere");
  return string_pattern(string->text());
}

}  // namespace tandem::exec
