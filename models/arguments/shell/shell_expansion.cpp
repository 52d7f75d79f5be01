#include "models/arguments/shell/shell_expansion.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

namespace tandem::arguments {
namespace {

/// Sums and products of whole numbers, as in $((NNODES * 8)).
class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : text_(text) {}

  std::optional<std::int64_t> whole() {
    const auto value = sum();
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && kBlanks.find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<std::int64_t> sum() {
    auto value = product();
    while (value) {
      const bool plus = take('+');
      if (!plus && !take('-')) return value;
      const auto more = product();
      value = more ? std::optional(plus ? *value + *more : *value - *more) : std::nullopt;
    }
    return value;
  }
  std::optional<std::int64_t> product() {
    auto value = number();
    while (value) {
      const char sign = take('*') ? '*' : take('/') ? '/' : take('%') ? '%' : ' ';
      if (sign == ' ') return value;
      const auto more = number();
      if (!more || (sign != '*' && *more == 0)) return std::nullopt;
      value = sign == '*' ? *value * *more : sign == '/' ? *value / *more : *value % *more;
    }
    return value;
  }
  std::optional<std::int64_t> number() {
    if (take('(')) {
      const auto value = sum();
      return take(')') ? value : std::nullopt;
    }
    skip();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value > 1'000'000'000) return std::nullopt;
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// Where the bracket at `at` closes, or the end of the text.
std::size_t closing(std::string_view text, std::size_t at, char open, char close) {
  std::size_t depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '\\') ++at;
    else if (text[at] == open) ++depth;
    else if (text[at] == close && --depth == 0) return at;
  }
  return text.size() - 1;
}

class Expander {
 public:
  explicit Expander(const Variables& variables) : variables_(variables) {}

  /// Of the text from a `$` or a backquote on.
  Expansion expanded(std::string_view text) const {
    if (text[0] == '`') {
      const std::size_t end = std::min(text.find('`', 1), text.size() - 1);
      return {{"$(" + std::string(text.substr(1, end - 1)) + ")"}, end + 1};
    }
    if (text.starts_with("$((")) return arithmetic(text);
    if (text.starts_with("$(expr ")) return of_expr(text, closing(text, 1, '(', ')') + 1);
    if (text.starts_with("$(")) return as_written(text, closing(text, 1, '(', ')') + 1);
    if (text.starts_with("${")) return in_braces(text, closing(text, 1, '{', '}') + 1);
    if (text.size() > 1 && (text[1] == '@' || text[1] == '*')) return {{}, 2, true};
    std::size_t end = 1;
    if (text.size() > 1 && begins_name(text[1]))
      while (end < text.size() && in_name(text[end])) ++end;
    if (end == 1) return as_written(text, std::min<std::size_t>(text.size(), 2));
    const std::string name(text.substr(1, end - 1));
    return value_of(name, text, end);
  }

  /// A text as between double quotes.
  std::string text_of(std::string_view text) const {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] != '$' && text[i] != '`') {
        out += text[i++];
        continue;
      }
      const Expansion there = expanded(text.substr(i));
      for (std::size_t w = 0; w < there.words.size(); ++w) out += (w > 0 ? " " : "") + there.words[w];
      i += there.length;
    }
    return out;
  }

 private:
  static Expansion as_written(std::string_view text, std::size_t length) {
    return {{std::string(text.substr(0, length))}, length};
  }

  Expansion value_of(const std::string& name, std::string_view text, std::size_t length, bool all = false) const {
    const Words* there = variables_.find(name);
    if (there == nullptr) return as_written(text, length);
    return {all || there->empty() ? *there : Words{there->front()}, length, all};
  }

  /// $(expr 16 / $N): what the command expr prints for numbers.
  Expansion of_expr(std::string_view text, std::size_t length) const {
    std::string inner = text_of(text.substr(7, length - 8));
    std::erase(inner, '\\');  // in front of a product's sign
    const auto value = Arithmetic(inner).whole();
    return value ? Expansion{{std::to_string(*value)}, length} : as_written(text, length);
  }

  Expansion arithmetic(std::string_view text) const {
    const std::size_t end = closing(text, 1, '(', ')') - 1;
    std::string inner = text_of(text.substr(3, end - 3)), values;
    for (std::size_t i = 0; i < inner.size();) {  // names may stand without a dollar sign
      std::size_t next = i;
      while (next < inner.size() && in_name(inner[next])) ++next;
      const Words* there = next > i && begins_name(inner[i]) ? variables_.find(inner.substr(i, next - i)) : nullptr;
      values += there != nullptr && !there->empty() ? there->front() : inner.substr(i, std::max<std::size_t>(1, next - i));
      i = std::max(next, i + 1);
    }
    const auto value = Arithmetic(values).whole();
    return value ? Expansion{{std::to_string(*value)}, end + 2} : as_written(text, end + 2);
  }

  Expansion in_braces(std::string_view text, std::size_t length) const {
    const std::string_view inner = text.substr(2, length - 3);
    std::size_t end = 0;
    while (end < inner.size() && in_name(inner[end])) ++end;
    const std::string name(inner.substr(0, end));
    std::string_view rest = inner.substr(end);
    if (inner.starts_with('@') || inner.starts_with('*')) return {{}, length, true};
    if (name.empty()) return as_written(text, length);
    if (rest.empty()) return value_of(name, text, length);
    if (rest == "[@]" || rest == "[*]") return value_of(name, text, length, true);
    const bool colon = rest.starts_with(':');
    if (colon) rest.remove_prefix(1);
    const bool otherwise = rest.starts_with('-') || rest.starts_with('=');
    if (!otherwise || variables_.unsure(name)) return as_written(text, length);
    const Words* there = variables_.find(name);
    if (there != nullptr && !(colon && (there->empty() || there->front().empty()))) return value_of(name, text, length);
    std::string word = text_of(rest.substr(1));
    if (word.size() > 1 && (word[0] == '"' || word[0] == '\'') && word.back() == word[0]) word = word.substr(1, word.size() - 2);
    return {{word}, length};
  }

  const Variables& variables_;
};

}  // namespace

bool begins_name(char c) { return c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool in_name(char c) { return begins_name(c) || (c >= '0' && c <= '9'); }

void Variables::set(const std::string& name, Words values, bool appends, bool certain) {
  if (!certain || (appends && unsure_.contains(name))) {
    known_.erase(name);
    unsure_.insert(name);
    return;
  }
  if (!appends) unsure_.erase(name);
  Words& now = known_[name];
  if (!appends) now = std::move(values);
  else if (now.size() == 1 && values.size() == 1) now[0] += values[0];
  else now.insert(now.end(), values.begin(), values.end());
}

const Words* Variables::find(const std::string& name) const {
  const auto there = known_.find(name);
  return there == known_.end() ? nullptr : &there->second;
}

Expansion expanded(const Variables& variables, std::string_view text) { return Expander(variables).expanded(text); }

}  // namespace tandem::arguments
