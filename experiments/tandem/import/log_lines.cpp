#include "experiments/tandem/import/log_lines.hpp"

#include <algorithm>
#include <string_view>

#include "experiments/tandem/import/log_measurements.hpp"
#include "models/arguments/argument_text.hpp"
#include "models/base/error.hpp"
#include "models/base/input.hpp"

namespace tandem::import {
namespace {

constexpr std::size_t kHead = 4096, kPortion = std::size_t{1} << 20;  // bytes that tell JSON from a log; read at once

constexpr std::string_view kDots = " ...";  // between an argument's printed name and its value

/// Keeps the needed lines of a log that arrives in portions.
class LineFilter {
 public:
  /// Takes the complete lines off `text`, or all of it: at the end, and where one line is a whole portion.
  void add_lines(std::string& text, bool all) {
    const std::size_t newline = text.rfind('\n');
    const std::size_t end = all || newline == std::string::npos ? text.size() : newline + 1;
    for (std::size_t at = 0; at < end;) {
      const std::size_t next = std::min(text.find('\n', at), end - 1) + 1;
      add(std::string_view(text).substr(at, next - at));
      at = next;
    }
    text.erase(0, end);
  }
  std::string kept;

 private:
  void add(std::string_view line) {
    const bool begins = arguments::begins_block(line), ends = inside_ && arguments::ends_block(line);
    const bool argument = inside_ && line.find(kDots) != std::string_view::npos;
    if (begins || ends || argument) kept += line;
    else kept += measured_parts(line);
    inside_ = begins || (inside_ && !ends);
  }
  bool inside_ = false;
};

bool is_json(std::string_view head) {
  const std::size_t begin = head.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && head[begin] == '{';
}

}  // namespace

std::string read_log(const std::string& path, std::size_t most) {
  InputFile file(path);
  if (is_json(file.head(kHead))) return file.whole(most);
  std::string text;
  LineFilter filter;
  bool is_long = false;
  for (std::string_view block = file.block(); !block.empty(); block = file.block()) {
    text += block;
    is_long = is_long || text.size() > most;
    if (is_long && text.size() > kPortion) filter.add_lines(text, false);
    if (filter.kept.size() > most)
      throw ConfigError(Problem{path, "", "", "has more than " + std::to_string(most >> 20) + " MiB of arguments and step times", "give a part of the log"});
  }
  if (!is_long) return text;
  filter.add_lines(text, true);
  return std::move(filter.kept);
}

}  // namespace tandem::import
