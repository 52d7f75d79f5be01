#include "models/base/error.hpp"

#include "models/base/text.hpp"

namespace tandem {
namespace {

// Longest parts of a message, in bytes. Names are cut in their middle, because their ends tell them apart.
constexpr std::size_t kMostOfFile = 1000, kMostOfField = 400, kMostOfValue = 200, kMostOfWords = 4000;

std::string join_messages(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& p : problems) text += (text.empty() ? "" : "\n") + p.message();
  return text;
}

}  // namespace

std::string Problem::message() const {
  std::string text = without_middle(file, kMostOfFile);
  if (!field.empty()) text += (text.empty() ? "" : ": ") + without_middle(field, kMostOfField);
  if (!value.empty()) text += (field.empty() ? (text.empty() ? "" : ": ") : " = ") + shortened(value, kMostOfValue);
  text += (text.empty() ? "" : ": ") + without_middle(reason, kMostOfWords);
  if (!remedy.empty()) text += "; " + without_middle(remedy, kMostOfWords);
  return printable(text);  // one line whatever the input held
}

ConfigError::ConfigError(std::vector<Problem> problems)
    : std::runtime_error(join_messages(problems)), problems_(std::move(problems)) {}

}  // namespace tandem
