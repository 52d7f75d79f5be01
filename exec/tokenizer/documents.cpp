#include "exec/tokenizer/documents.hpp"

#include <nlohmann/json.hpp>

#include "exec/tokenizer/place.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 40;  // the real limit is the host's memory

void require_utf8(const std::string& path, const std::string& place, std::string_view text) {
  const std::size_t at = invalid_utf8(text);
  if (at == std::string_view::npos) return;
  throw ConfigError(Problem{path, place + "byte " + std::to_string(at), std::to_string(static_cast<unsigned char>(text[at])), "is not UTF-8",
                            "convert the text, for example with iconv -f LATIN1 -t UTF-8"});
}

/// Calls `take` with each line, without its end, and its number from 1 on, until it returns false.
void each_line(const std::string& path, const std::function<bool(std::string_view, std::int64_t)>& take) {
  InputFile file(path);
  std::string rest;
  std::int64_t number = 0;
  for (std::string_view block = file.block(); !block.empty(); block = file.block()) {
    std::size_t begin = 0;
    for (std::size_t end = block.find('\n'); end != std::string_view::npos; begin = end + 1, end = block.find('\n', begin)) {
      rest += block.substr(begin, end - begin);
      if (!take(rest, ++number)) return;
      rest.clear();
    }
    rest += block.substr(begin);
  }
  if (!rest.empty()) take(rest, ++number);
}

/// Parses one line of a file. In its problems, "line 1" would be the line that the parser sees, not the file's.
nlohmann::json value_of(std::string_view line, const std::string& place) {
  try {
    return parse_json(line, place);
  } catch (const ConfigError& e) {
    constexpr std::string_view kOnly = "line 1, ";
    std::vector<Problem> problems = e.problems();
    for (Problem& p : problems)
      if (p.field.starts_with(kOnly)) p.field.erase(0, kOnly.size());
    throw ConfigError(std::move(problems));
  }
}

void each_json_line(const std::string& path, const DocumentOptions& options, const std::function<void(std::string_view)>& take) {
  bool first = true;
  each_object(path, [&](const Place& line) {
    if (!line.json().contains(options.key))
      throw ConfigError(Problem{line.file(), options.key, "", "is missing", first ? options.remedy : "every line has what the first has"});
    first = false;
    return take(line.at(options.key).text()), true;
  });
}

/// Refuses a .json file without an object a line: its braces and keys are no text.
void refuse_other_json(const std::string& path, std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (!path.ends_with(".json") || first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return;
  throw ConfigError(Problem{path, "", "", "is JSON without an object a line", "write one object a line, as `jq -c` does, or name it .txt to read it as a text"});
}

}  // namespace

bool has_object_lines(const std::string& path) {
  if (path.ends_with(".jsonl")) return true;
  if (!path.ends_with(".json") || file_state(path).kind != FileKind::regular) return false;
  bool object = false;
  each_line(path, [&](std::string_view line, std::int64_t) {
    object = nlohmann::json::parse(line, nullptr, false).is_object();
    return false;
  });
  return object;
}

void each_object(const std::string& path, const std::function<bool(const Place&)>& take) {
  each_line(path, [&](std::string_view line, std::int64_t number) {
    const std::string place = path + ", line " + std::to_string(number);
    const nlohmann::json object = value_of(line, place);
    if (!object.is_object())
      throw ConfigError(Problem{place, "", "", "the line is " + kind_text(object) + ", not an object", "give a JSON object a line"});
    return take(Place(object, place, ""));
  });
}

void each_document(const std::string& path, const DocumentOptions& options, const std::function<void(std::string_view)>& take) {
  if (has_object_lines(path)) return each_json_line(path, options, take);
  if (!options.lines) {
    const std::string text = InputFile(path).whole(kMostBytes);
    refuse_other_json(path, text);
    require_utf8(path, "", text);
    return take(text);
  }
  each_line(path, [&](std::string_view line, std::int64_t number) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    require_utf8(path, "line " + std::to_string(number) + ", ", line);
    return take(line), true;
  });
}

}  // namespace tandem::exec
