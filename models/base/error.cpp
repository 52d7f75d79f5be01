#include "models/base/error.hpp"

namespace tandem {
namespace {

/// A message is one line whatever the input held.
std::string on_one_line(const std::string& text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    const auto b = static_cast<unsigned char>(c);
    if (b >= 0x20 && b != 0x7F)
      line += c;
    else
      line += std::string("\\x") + digits[b >> 4] + digits[b & 15];
  }
  return line;
}

std::string join_messages(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& p : problems) text += (text.empty() ? "" : "\n") + p.message();
  return text;
}

}  // namespace

std::string Problem::message() const {
  std::string text = file;
  if (!field.empty()) text += (text.empty() ? "" : ": ") + field;
  if (!value.empty()) text += (field.empty() ? (text.empty() ? "" : ": ") : " = ") + value;
  text += (text.empty() ? "" : ": ") + reason;
  if (!remedy.empty()) text += "; " + remedy;
  return on_one_line(text);
}

ConfigError::ConfigError(std::vector<Problem> problems)
    : std::runtime_error(join_messages(problems)), problems_(std::move(problems)) {}

}  // namespace tandem
