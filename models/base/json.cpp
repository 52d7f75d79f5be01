#include "models/base/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/base/input.hpp"
#include "models/base/text.hpp"

namespace tandem {
namespace {

using nlohmann::json;

std::string place_text(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column = 1 + before.size() - (start == std::string_view::npos ? 0 : start + 1);
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

/// Length of the valid UTF-8 sequence at the front of s (RFC 3629: no overlong form, no surrogate), 0 if there is none.
std::size_t utf8_length(std::string_view s) {
  const auto byte = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool legal = lead == 0xE0 ? byte(1) >= 0xA0 : lead != 0xED || byte(1) <= 0x9F;
    return legal && tail(1) && tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool legal = lead == 0xF0 ? byte(1) >= 0x90 : lead != 0xF4 || byte(1) <= 0x8F;
    return legal && tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

/// Offset of the first byte that is not UTF-8, npos if there is none.
std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(text.substr(i));
    if (n == 0) return i;
    i += n;
  }
  return std::string_view::npos;
}

std::string byte_text(char c) {
  static constexpr std::string_view digits = "0123456789abcdef";
  const auto b = static_cast<unsigned char>(c);
  return std::string("byte 0x") + digits[b >> 4] + digits[b & 15];
}

void require_encoding(std::string_view text, const std::string& file) {
  const std::string save = "save the file as UTF-8 without a byte-order mark";
  if (text.substr(0, 2) == "\xFF\xFE" || text.substr(0, 2) == "\xFE\xFF") {
    throw ConfigError(Problem{file, "", "", "is UTF-16, not UTF-8", save});
  }
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    throw ConfigError(Problem{file, "", "", "starts with a byte-order mark, which JSON does not allow", save});
  }
  const std::size_t bad = first_bad_byte(text);
  if (bad == std::string_view::npos) return;
  throw ConfigError(
      Problem{file, place_text(text, bad), byte_text(text[bad]), "is not UTF-8", "save the file as UTF-8, or give a file that is text"});
}

void require_content(std::string_view text, const std::string& file) {
  if (text.find_first_not_of(" \t\r\n") != std::string_view::npos) return;
  throw ConfigError(Problem{file, "", "", "is empty", "write one JSON object"});
}

/// The cause of a parser error, in our own words for common mistakes.
struct SyntaxError {
  std::string reason, remedy;
};

/// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing value - invalid
/// literal; last read: 'x'; expected end of input" -> "invalid literal; expected end of input".
std::string library_words(std::string what) {
  if (const auto dash = what.find(" - "); dash != std::string::npos) what = what.substr(dash + 3);
  if (const auto read = what.find("; last read: "); read != std::string::npos) {
    const auto end = what.rfind("'; expected");
    what.erase(read, end == std::string::npos || end < read ? std::string::npos : end + 1 - read);
  }
  return shortened(what, 120);
}

/// The last character before `offset` that is not blank, '\0' if there is none.
char solid_before(std::string_view text, std::size_t offset) {
  const std::size_t at = offset == 0 ? std::string_view::npos : text.find_last_not_of(" \t\r\n", offset - 1);
  return at == std::string_view::npos ? '\0' : text[at];
}

SyntaxError explain(std::string_view text, std::size_t at, const std::string& library) {
  const auto says = [&](std::string_view words) { return library.find(words) != std::string::npos; };
  const char found = at < text.size() ? text[at] : '\0';
  if (says("; expected end of input")) return {"there is text behind the end of the value", "remove it"};
  if (says("unexpected end of input") || says("missing closing quote")) {
    return {"the text ends before the value is complete", "close every bracket and quote"};
  }
  if ((found == '}' || found == ']') && solid_before(text, at) == ',') {
    return {"there is a comma before the closing bracket", "remove it"};
  }
  if (found == '/' || found == '#') return {"JSON has no comments", "use a \"notes\" field"};
  if (found == '\'') return {"JSON strings stand in double quotes", "write \"...\""};
  if (says("control character"))
    return {"a string holds a line break or another control character", "write \\n for a line break"};
  if (says("; expected string literal")) return {"a key in double quotes must stand here", ""};
  if (says("unexpected string literal; expected '}'")) return {"a comma is missing before this key", "write one"};
  if (says("; expected ':'")) return {"a key must be followed by a colon", "write \"key\": value"};
  if (says("invalid literal")) {
    return {"is not a JSON value", "write a number, true, false, [...], {...} or a string in double quotes"};
  }
  return {"is not JSON: " + library, ""};
}

/// Builds the value while it looks for what the library would accept in silence: duplicate keys and deep nesting.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(std::string_view text, const std::string& file, const JsonLimits& limits)
      : text_(text), file_(file), limits_(limits) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(number_integer_t v) override { return put(v); }
  bool number_unsigned(number_unsigned_t v) override { return put(v); }
  bool number_float(number_float_t v, const string_t&) override { return put(v); }
  bool string(string_t& v) override { return put(std::move(v)); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& k) override {
    if (open_.back().value->contains(k)) {
      problems_.push_back({file_, path(k), "", "this key is given twice", "keep one of them"});
    }
    open_.back().key = std::move(k);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& e) override {
    const std::size_t at = position > 0 ? position - 1 : 0;
    if (e.id == 406) return out_of_range(at, token);
    const SyntaxError error = explain(text_, at, library_words(e.what()));
    problems_.push_back({file_, place_text(text_, at), "", error.reason, error.remedy});
    return false;
  }

  json take() {
    if (!problems_.empty()) throw ConfigError(std::move(problems_));
    return std::move(root_);
  }

 private:
  struct Open {
    json* value;
    std::string key;  ///< key of the member being read
  };

  std::string path(const std::string& last) const {
    std::string p;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) p += open_[i].key.empty() ? "" : open_[i].key + ".";
    return p + last;
  }

  bool out_of_range(std::size_t at, const std::string& token) {
    const std::string field =
        open_.empty() || open_.back().key.empty() ? place_text(text_, at) : path(open_.back().key);
    problems_.push_back({file_, field, shortened(token, 40), "is too large for a number", "use less than 1.8e308"});
    return false;
  }

  json* place(json&& v) {
    if (open_.empty()) return &(root_ = std::move(v));
    json& parent = *open_.back().value;
    if (parent.is_array()) return &parent.emplace_back(std::move(v));
    return &(parent[open_.back().key] = std::move(v));
  }

  bool put(json v) {
    place(std::move(v));
    return true;
  }

  bool open(json&& v) {
    if (static_cast<int>(open_.size()) >= limits_.max_depth) {
      problems_.push_back({file_, "", "", "brackets are nested deeper than " + std::to_string(limits_.max_depth), ""});
      return false;
    }
    json* at = place(std::move(v));
    open_.push_back({at, ""});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& file_;
  JsonLimits limits_;
  json root_;
  std::vector<Open> open_;
  std::vector<Problem> problems_;
};

[[noreturn]] void refuse_file(const std::string& path, std::string reason, std::string remedy = "") {
  throw ConfigError(Problem{path, "", "", std::move(reason), std::move(remedy)});
}

/// Whether a text with this start may be JSON, or needs a full read to tell (byte-order mark, comment).
bool may_be_json(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos || std::string_view("{[\"'-0123456789tfn/#\xEF\xFE\xFF").find(head[first]) != std::string_view::npos;
}

}  // namespace

std::string read_text(const std::string& path, std::size_t max_bytes) {
  return InputFile(path).whole(max_bytes);
}

json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    refuse_file(file, "is larger than " + std::to_string(limits.max_bytes >> 20) + " MiB", "is it the right file?");
  }
  require_content(text, file);
  require_encoding(text, file);
  Builder builder(text, file, limits);
  json::sax_parse(text, &builder);
  return builder.take();
}

json read_json(const std::string& path, const JsonLimits& limits) {
  InputFile file(path);
  constexpr std::size_t kBeginning = 4096;
  const std::string_view head = file.head(kBeginning);
  if (!may_be_json(head)) return parse_json(head, path, limits);  // says what is wrong with it
  return parse_json(file.whole(limits.max_bytes), path, limits);
}

std::string value_text(const json& value, std::size_t limit) {
  return shortened(value.dump(-1, ' ', false, json::error_handler_t::replace), limit);
}

std::string kind_text(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_null()) return "null";
  return value.is_number_integer() ? "a whole number" : "a number";
}

}  // namespace tandem
