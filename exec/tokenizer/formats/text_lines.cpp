#include "exec/tokenizer/formats/text_lines.hpp"

#include "models/base/error.hpp"

namespace tandem::exec {

void each_text_line(std::string_view text, const std::function<void(std::string_view, std::size_t)>& take) {
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take(line, ++number);
  }
}

void refuse_line(const std::string& file, std::size_t number, std::string_view line, const std::string& reason) {
  constexpr std::size_t kShown = 60;
  throw ConfigError(Problem{file, "line " + std::to_string(number), std::string(line.substr(0, kShown)), reason, "copy the file again, or give another"});
}

}  // namespace tandem::exec
