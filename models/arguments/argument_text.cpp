#include "models/arguments/argument_text.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/arguments/command_line.hpp"
#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestList = 100'000;
constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(kBlanks);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlanks) - from + 1);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return out;
}

[[noreturn]] void fail(const std::string& file, std::string_view word, const char* reason, const char* remedy) {
  throw ConfigError(Problem{file, "arguments", '"' + shortened(word) + '"', reason, remedy});
}

// ---- values ----

/// Reads Python's lists of literals, their sums and products: [0] * 3 + [1] * 58.
class ListReader {
 public:
  explicit ListReader(std::string_view text) : text_(text) {}

  std::optional<json> whole() {
    std::optional<json> value = sum();
    skip();
    if (!value || at_ != text_.size()) return std::nullopt;
    return value;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<json> sum() {
    std::optional<json> value = product();
    while (value && take('+')) {
      const std::optional<json> more = product();
      if (!more || !value->is_array() || !more->is_array()) return std::nullopt;
      for (const json& v : *more) value->push_back(v);
      if (value->size() > kLongestList) return std::nullopt;
    }
    return value;
  }

  std::optional<json> product() {
    std::optional<json> value = list();
    while (value && take('*')) {
      skip();
      std::size_t times = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), times);
      if (error != std::errc() || !value->is_array() || times * value->size() > kLongestList) return std::nullopt;
      at_ = static_cast<std::size_t>(end - text_.data());
      const json once = *value;
      *value = json::array();
      for (std::size_t i = 0; i < times; ++i)
        for (const json& v : once) value->push_back(v);
    }
    return value;
  }

  std::optional<json> list() {
    const bool round = take('(');
    if (!round && !take('[')) return std::nullopt;
    const std::size_t begin = at_;
    if (round) {  // a sum in parentheses, else a tuple
      if (const std::optional<json> inside = sum(); inside && take(')')) return inside;
      at_ = begin;
    }
    json out = json::array();
    const char close = round ? ')' : ']';
    while (!take(close)) {
      if (!out.empty() && !take(',')) return std::nullopt;
      if (take(close)) break;  // a tuple of one ends in a comma
      skip();
      const std::size_t end = text_.find_first_of(round ? ",)" : ",]", at_);
      if (end == std::string_view::npos) return std::nullopt;
      std::string_view word = trimmed(text_.substr(at_, end - at_));
      if (word.size() > 1 && (word.front() == '\'' || word.front() == '"') && word.back() == word.front())
        out.push_back(std::string(word.substr(1, word.size() - 2)));
      else out.push_back(argument_value(std::string(word)));
      at_ = end;
    }
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// The word without the underscores that Python takes between two digits: 300_000_000.
std::string without_underscores(std::string_view word) {
  const auto digit = [&](std::size_t i) { return i < word.size() && word[i] >= '0' && word[i] <= '9'; };
  std::string out;
  for (std::size_t i = 0; i < word.size(); ++i)
    if (word[i] != '_' || i == 0 || !digit(i - 1) || !digit(i + 1)) out += word[i];
  return out;
}

std::optional<json> number_of(std::string_view word) {
  const std::string digits = without_underscores(word.starts_with('+') ? word.substr(1) : word);
  std::int64_t whole = 0;
  const char* const last = digits.data() + digits.size();
  const auto [whole_end, whole_error] = std::from_chars(digits.data(), last, whole);
  if (whole_error == std::errc() && whole_end == last) return json(whole);
  double real = 0;
  const auto [end, error] = std::from_chars(digits.data(), last, real);
  const bool finite = real - real == 0;
  return error == std::errc() && end == last && finite ? std::optional<json>(real) : std::nullopt;
}

/// "128,0" as a list; nothing if an entry is no number.
std::optional<json> numbers_of(std::string_view word) {
  json out = json::array();
  while (true) {
    const std::size_t comma = word.find(',');
    const std::optional<json> one = number_of(word.substr(0, comma));
    if (!one) return std::nullopt;
    out.push_back(*one);
    if (comma == std::string_view::npos) return out.size() > 1 ? std::optional<json>(out) : std::nullopt;
    word = word.substr(comma + 1);
  }
}

// ---- a printed block ----

/// Least length of a printed name with its dots: Megatron-LM fills up to 48, before 2023 to 32.
constexpr std::size_t kPrintedName = 32;

/// "  num_layers ...................................... 96": name and value, also behind a rank's or a clock's mark.
std::optional<std::pair<std::string, std::string>> printed_argument(std::string_view line) {
  const std::size_t dots = line.find(" ...");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view before = trimmed(line.substr(0, dots));
  const std::string_view name = before.substr(before.find_last_of(" \t:]") + 1);
  const std::size_t end = line.find_first_not_of('.', dots + 1);
  const bool named = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  const std::size_t length = name.size() + std::min(end, line.size()) - dots - 1;
  if (!named || length < kPrintedName || (end != std::string_view::npos && line[end] != ' ')) return std::nullopt;
  return std::pair(std::string(name), std::string(end == std::string_view::npos ? "" : trimmed(line.substr(end))));
}

/// The last complete block, or what there is of the only one; empty if there is none.
json printed_block(std::string_view text) {
  json last, now;
  bool inside = false;
  for (const std::string_view line : lines_of(text)) {
    if (begins_block(line)) now = json::object(), inside = true;
    else if (inside && ends_block(line)) last = std::exchange(now, {}), inside = false;
    else if (const auto argument = inside ? printed_argument(line) : std::nullopt)
      now[argument->first] = argument_value(argument->second);
  }
  return last.is_null() ? now : last;
}

// ---- layouts ----

/// `layout` from `at` with its repetitions written out, up to a closing parenthesis.
std::optional<std::string> written_out(std::string_view layout, std::size_t& at) {
  std::string out, piece;
  while (at < layout.size() && layout[at] != ')') {
    const char c = layout[at++];
    if (c == '*') {
      std::size_t times = 0;
      const auto [end, error] = std::from_chars(layout.data() + at, layout.data() + layout.size(), times);
      if (error != std::errc() || times == 0 || piece.size() * times > kLongestList) return std::nullopt;
      at = static_cast<std::size_t>(end - layout.data());
      for (std::size_t i = 1; i < times; ++i) out += piece;
      continue;
    }
    if (c == '(') {
      const std::optional<std::string> inside = written_out(layout, at);
      if (!inside || at >= layout.size()) return std::nullopt;
      ++at;
      piece = *inside;
    } else if (c == ',' || c == ' ') {
      continue;  // for readers only
    } else if (std::string_view("EtmL|").find(c) == std::string_view::npos) {
      return std::nullopt;
    } else {
      piece = std::string(1, c);
    }
    out += piece;
  }
  return out;
}

}  // namespace

json argument_value(const std::string& word) {
  if (word == "None" || word == "null") return {};
  if (word == "True" || word == "true" || word == "False" || word == "false") return word[0] == 'T' || word[0] == 't';
  if (const std::optional<json> number = number_of(word)) return *number;
  if (const std::optional<json> numbers = numbers_of(word)) return *numbers;
  if (!word.empty() && (word.front() == '[' || word.front() == '('))
    if (const std::optional<json> list = ListReader(word).whole()) return *list;
  return word;
}

json layout_layers(const std::string& layout) {
  std::size_t at = 0;
  const std::optional<std::string> whole = written_out(layout, at);
  if (!whole || at != layout.size() || whole->find('|') == std::string::npos) return {};
  json out = json::array();
  std::int64_t layers = 0;
  for (const char c : *whole + "|") {
    if (c == 't') ++layers;
    if (c == '|') out.push_back(std::exchange(layers, 0));
  }
  return out;
}

bool begins_block(std::string_view line) {
  return line.find("--- arguments ---") != std::string_view::npos || line.find("--- Arguments ---") != std::string_view::npos;
}

bool ends_block(std::string_view line) { return line.find("--- end of ") != std::string_view::npos; }

bool has_printed_block(std::string_view text) {
  const json block = printed_block(text);
  return !block.is_null() && !block.empty();
}

bool looks_like_arguments(std::string_view text) {
  for (const std::string_view line : lines_of(text)) {
    if (begins_block(line)) return true;
    for (std::size_t at = line.find("--"); at != std::string_view::npos; at = line.find("--", at + 2))
      if (is_option(line.substr(at)) && (at == 0 || line[at - 1] == '"' || kBlanks.find(line[at - 1]) != std::string_view::npos))
        return true;
  }
  return false;
}

Arguments read_arguments(std::string_view text, const ArgumentNames& names, const std::string& file) {
  json block = printed_block(text);
  if (!block.is_null() && !block.empty()) return {std::make_shared<json>(std::move(block)), "", true};
  Arguments out = command_arguments(text, names, file);
  if (out.values->empty()) fail(file, text.substr(0, 40), "has no option and no block of arguments", "give options such as --num-layers 96");
  return out;
}

}  // namespace tandem::arguments
