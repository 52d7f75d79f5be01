#include "models/base/text.hpp"

#include <algorithm>
#include <cctype>

namespace tandem {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool contains(std::string_view text, std::string_view part) {
  return part.size() >= 3 && text.find(part) != std::string_view::npos;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  if (word.empty() || word.size() > 200) return {};
  std::string best;
  for (const std::string& k : known)  // whoever leaves out the end of a name means no other one
    if (word.size() >= 3 && k.size() > word.size() && k.starts_with(word) && (best.empty() || k.size() < best.size())) best = k;
  if (!best.empty()) return best;
  std::size_t fewest = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& k : known) {
    const std::size_t d = edit_distance(word, k);
    if (d < fewest && d < k.size()) fewest = d, best = k;
  }
  if (!best.empty()) return best;
  for (const std::string& k : known)  // of names that have the word in them, the one with least beside it
    if ((contains(k, word) || contains(word, k)) && (best.empty() || k.size() < best.size())) best = k;
  return best;
}

std::string list_text(std::span<const std::string> words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " " + std::string(last) + " " : ", ";
    text += words[i];
  }
  return text;
}

std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  std::size_t end = limit - 3;
  while (end > 0 && continues_character(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string printable(std::string_view text, std::string_view kept) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto b = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool second_set = b == 0xC2 && 0x80 <= next && next <= 0x9F;  // ESC [ and its like as one character, in UTF-8
    if (!second_set && ((b >= 0x20 && b != 0x7F) || kept.find(text[i]) != std::string_view::npos)) {
      out += text[i];
      continue;
    }
    const unsigned char code = second_set ? next : b;
    out += {'\\', 'x', digits[code >> 4], digits[code & 15]};
    i += second_set ? 1 : 0;
  }
  return out;
}

std::string without_middle(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  std::size_t begin = text.size() - limit / 3;
  while (begin < text.size() && continues_character(text[begin])) ++begin;
  return shortened(text, limit - limit / 3) + std::string(text.substr(begin));
}

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::string use_one_of(std::vector<std::int64_t> values, std::int64_t wanted) {
  const auto distance = [&](std::int64_t v) { return v > wanted ? v - wanted : wanted - v; };
  std::stable_sort(values.begin(), values.end(), [&](auto a, auto b) { return distance(a) < distance(b); });
  if (values.size() > 8) values.resize(8);
  std::sort(values.begin(), values.end());
  std::vector<std::string> words;
  words.reserve(values.size());
  for (const std::int64_t v : values) words.push_back(std::to_string(v));
  return words.empty() ? std::string() : "use " + list_text(words, "or");
}

}  // namespace tandem
