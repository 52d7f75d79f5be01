#include "exec/process/host_list.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace tandem::exec {
namespace {

using Names = std::vector<std::string>;
constexpr std::size_t kMostHosts = 100'000;

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digit = [](char c) { return '0' <= c && c <= '9'; };
  const bool digits = !text.empty() && text.size() < 10 && std::all_of(text.begin(), text.end(), digit);
  return digits && error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Splits a text at commas outside brackets; returns nothing if a bracket is not closed.
std::vector<std::string_view> parts(std::string_view text) {
  std::vector<std::string_view> all;
  std::size_t first = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '[' && inside) || (text[i] == ']' && !inside)) return {};
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] != ',' || inside) continue;
    all.push_back(text.substr(first, i - first));
    first = i + 1;
  }
  all.push_back(text.substr(first));
  return inside ? std::vector<std::string_view>() : all;
}

/// Adds the numbers of "07" or "01-03".
bool add_range(std::string_view range, Names& numbers) {
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash), high = dash == range.npos ? low : range.substr(dash + 1);
  const auto from = number(low), to = number(high);
  if (!from || !to || *from > *to || static_cast<std::size_t>(*to - *from) >= kMostHosts) return false;
  for (std::int64_t n = *from; n <= *to; ++n) {
    const std::string digits = std::to_string(n);
    numbers.push_back(std::string(low.size() > digits.size() ? low.size() - digits.size() : 0, '0') + digits);
  }
  return true;
}

bool append_each(Names& names, const Names& ends) {
  if (names.size() * ends.size() > kMostHosts) return false;
  Names longer;
  for (const std::string& name : names)
    for (const std::string& end : ends) longer.push_back(name + end);
  names = std::move(longer);
  return true;
}

/// Expands one name, which may contain brackets.
bool expand(std::string_view text, Names& all) {
  Names names{""};
  while (!text.empty()) {
    const std::size_t open = std::min(text.find('['), text.size());
    if (!append_each(names, {std::string(text.substr(0, open))})) return false;
    text.remove_prefix(open);
    if (text.empty()) break;
    const std::size_t close = text.find(']');
    Names numbers;
    for (const std::string_view range : parts(text.substr(1, close - 1)))
      if (!add_range(range, numbers)) return false;
    if (!append_each(names, numbers)) return false;
    text.remove_prefix(close + 1);
  }
  all.insert(all.end(), names.begin(), names.end());
  return all.size() <= kMostHosts;
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view text) {
  Names all;
  for (const std::string_view name : parts(text))
    if (name.empty() || !expand(name, all)) return {};
  return all;
}

}  // namespace tandem::exec
