#include "models/arguments/yaml_text.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kDeepest = 100;
constexpr std::int64_t kMostNodes = 1'000'000;  // anchors inside anchors grow without bound

Problem problem(const std::string& file, const YAML::Mark& at, const std::string& reason, const std::string& remedy) {
  const std::string place = at.is_null() ? "" : "line " + std::to_string(at.line + 1) + ", column " + std::to_string(at.column + 1);
  return {file, place, "", reason, remedy};
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// A whole number, also in base 2, 8 or 16, with YAML 1.1's underscores.
std::optional<json> whole_of(std::string digits) {
  std::erase(digits, '_');
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0b")) base = digits[1] == 'x' ? 16 : 2;
  else if (digits.size() > 1 && digits[0] == '0') base = 8;
  const char* const begin = digits.data() + (base == 16 || base == 2 ? 2 : 0);
  const char* const last = digits.data() + digits.size();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(begin, last, value, base);
  if (begin == last || error != std::errc() || end != last || *begin == '-') return std::nullopt;
  return json(negative ? -value : value);
}

/// A number with a point or an exponent. Infinite and not-a-number become null, as JSON has neither.
std::optional<json> real_of(std::string digits) {
  std::erase(digits, '_');
  if (is_one_of(digits, {".inf", "-.inf", "+.inf", ".Inf", "-.Inf", ".INF", "-.INF", ".nan", ".NaN", ".NAN"})) return json();
  if (digits.starts_with('+')) digits.erase(0, 1);
  const bool numeric = digits.find_first_not_of("0123456789.eE+-") == std::string::npos;
  if (!numeric || digits.find_first_of("0123456789") == std::string::npos) return std::nullopt;
  double value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  return error == std::errc() && end == last ? std::optional<json>(value) : std::nullopt;
}

/// A scalar without quotes and without a tag.
json plain_scalar(const std::string& text) {
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return {};
  if (is_one_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) return false;
  if (const std::optional<json> whole = whole_of(text)) return *whole;
  if (const std::optional<json> real = real_of(text)) return *real;
  return text;
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  json read(const YAML::Node& node, int depth = 0) {
    if (depth > kDeepest || ++nodes_ > kMostNodes)
      throw ConfigError(problem(file_, node.Mark(), "has anchors that expand to too much", "write the values out"));
    require_plain_tag(node);
    if (node.IsMap()) return map(node, depth);
    if (node.IsSequence()) {
      json out = json::array();
      for (const YAML::Node& value : node) out.push_back(read(value, depth + 1));
      return out;
    }
    if (!node.IsScalar()) return {};
    return node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str" ? json(node.Scalar()) : plain_scalar(node.Scalar());
  }

 private:
  void require_plain_tag(const YAML::Node& node) const {
    const std::string& tag = node.Tag();
    if (tag.empty() || tag == "!" || tag == "?" || (tag.starts_with("tag:yaml.org,2002:") && tag.find("python") == std::string::npos)) return;
    throw ConfigError(problem(file_, node.Mark(), "has the tag " + shortened(tag) + ", which only its program understands",
                              "write the value without it"));
  }

  json map(const YAML::Node& node, int depth) {
    json out = json::object(), merged = json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) throw ConfigError(problem(file_, entry.first.Mark(), "has a key that is no word", "give it a name"));
      const std::string& key = entry.first.Scalar();
      json value = read(entry.second, depth + 1);
      if (key == "<<") {
        add_merged(value, merged);
        continue;
      }
      if (out.contains(key)) throw ConfigError(problem(file_, entry.first.Mark(), shortened(key) + " stands twice", "leave one out"));
      out[key] = std::move(value);
    }
    merged.update(out);
    return merged;
  }

  /// The first of several maps counts.
  static void add_merged(const json& value, json& merged) {
    if (value.is_object()) {
      json all = value;
      all.update(merged);
      merged = std::move(all);
    }
    if (value.is_array())
      for (const json& one : value) add_merged(one, merged);
  }

  const std::string& file_;
  std::int64_t nodes_ = 0;
};

/// A word as it stands, or in quotes where it would be read as something else.
std::string written_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+") == std::string::npos &&
                     word.front() != '-' && plain_scalar(word).is_string();
  if (plain) return word;
  const bool printable = std::all_of(word.begin(), word.end(), [](unsigned char c) { return c >= ' '; });
  if (!printable) return json(word).dump();
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

std::string written_value(const ordered_json& value) {
  if (value.is_string()) return written_word(value.get<std::string>());
  std::string text = value.is_array() ? "[" : value.dump();
  if (value.is_array())
    for (const ordered_json& one : value) text += (text.size() == 1 ? "" : ", ") + written_value(one);
  if (value.is_array()) return text + "]";
  const std::size_t exponent = text.find('e');
  if (value.is_number_float() && exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

void add_block(const ordered_json& object, const std::string& indent, std::string& out) {
  for (const auto& [key, value] : object.items()) {
    const bool block = value.is_object() && !value.empty();
    out += indent + written_word(key) + ":" + (block ? "" : " " + written_value(value)) + "\n";
    if (block) add_block(value, indent + "  ", out);
  }
}

}  // namespace

std::string yaml_text(const ordered_json& object) {
  std::string out;
  add_block(object, "", out);
  return out;
}

json parse_yaml(const std::string& text, const std::string& file) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) throw ConfigError(Problem{file, "", "", "has several documents", "give a file with one"});
    return documents.empty() ? json() : Reader(file).read(documents.front());
  } catch (const YAML::Exception& e) {
    throw ConfigError(problem(file, e.mark, "is no YAML: " + e.msg, "correct the text"));
  }
}

}  // namespace tandem::arguments
