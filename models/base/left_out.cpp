#include "models/base/left_out.hpp"

#include <algorithm>
#include <cctype>

namespace tandem {
namespace {

constexpr std::size_t kArxivDigits = 4;  // before the point; five behind it
constexpr std::size_t kArxivLength = 10;

thread_local const Sources* left_out = nullptr;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '/'; }

/// The words of a text that could be a repository or a paper, without points at their ends.
std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    std::size_t length = 0;
    while (length < text.size() && is_of_name(text[length])) ++length;
    std::string_view word = text.substr(0, length);
    while (word.ends_with('.')) word.remove_suffix(1);
    if (!word.empty()) out.push_back(word);
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return out;
}

bool is_paper(std::string_view word) {
  if (word.size() != kArxivLength || word[kArxivDigits] != '.') return false;
  return std::count_if(word.begin(), word.end(), is_digit) == static_cast<std::ptrdiff_t>(kArxivLength - 1);
}

/// OWNER/NAME: one slash inside, and an owner that begins with a letter and has no point.
bool is_repository(std::string_view word) {
  const std::size_t slash = word.find('/');
  if (slash == 0 || slash == word.npos || slash + 1 == word.size() || word.find('/', slash + 1) != word.npos) return false;
  const std::string_view owner = word.substr(0, slash);
  return std::isalpha(static_cast<unsigned char>(owner.front())) != 0 && owner.find_first_of("._") == owner.npos;
}

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::vector<std::string> parts(const std::string& choice) {
  std::vector<std::string> out(1);
  for (const char c : choice) c == '+' ? void(out.emplace_back()) : out.back().push_back(c);
  return out;
}

}  // namespace

LeftOut::LeftOut(const Sources& sources) : before_(left_out) { left_out = &sources; }
LeftOut::~LeftOut() { left_out = before_; }

const Sources& LeftOut::now() {
  static const Sources none;
  return left_out == nullptr ? none : *left_out;
}

std::vector<std::string> named_evidence(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view word : words(text))
    if ((is_paper(word) || is_repository(word)) && !contains(out, word)) out.emplace_back(word);
  return out;
}

bool rests_on_left_out(std::string_view source) {
  const std::vector<std::string>& evidence = LeftOut::now().evidence;
  if (evidence.empty()) return false;
  const std::vector<std::string> named = named_evidence(source);
  return std::any_of(named.begin(), named.end(), [&](const std::string& n) { return contains(evidence, n); });
}

std::string choice_without(const std::vector<std::string>& choices) {
  std::vector<std::string> said;
  for (const std::string& choice : choices)
    for (std::string& set : parts(choice)) said.push_back(std::move(set));
  std::vector<std::string> wanted;
  for (const std::string& set : LeftOut::now().sets)
    if (contains(said, set)) wanted.push_back(set);
  std::string best;
  std::size_t fewest = 0;
  for (const std::string& choice : choices) {
    const std::vector<std::string> out = parts(choice);
    const bool all = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& s) { return contains(out, s); });
    if (!wanted.empty() && all && (best.empty() || out.size() < fewest)) best = choice, fewest = out.size();
  }
  return best;
}

}  // namespace tandem
