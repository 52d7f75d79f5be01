#include "topology/link_names.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace tandem {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Removes the digits at the front and returns them.
std::string_view take_number(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  const std::string_view number = text.substr(0, n);
  text.remove_prefix(n);
  return number;
}

bool matches(std::string_view pattern, std::string_view name) {
  for (; !pattern.empty(); pattern.remove_prefix(1)) {
    if (pattern.front() == '*') {
      if (take_number(name).empty()) return false;
    } else {
      if (name.empty() || name.front() != pattern.front()) return false;
      name.remove_prefix(1);
    }
  }
  return name.empty();
}

/// The name of each direction that a name means.
std::vector<std::string> directions(const std::string& name) {
  constexpr std::string_view kBoth = " <-> ";
  const std::size_t both = name.find(kBoth);
  if (both == std::string::npos) return {name};
  const std::size_t colon = name.rfind(": ", both), begin = colon == std::string::npos ? 0 : colon + 2;
  const std::string where = name.substr(0, begin), a = name.substr(begin, both - begin), b = name.substr(both + kBoth.size());
  return {where + a + " to " + b, where + b + " to " + a};
}

/// A link name split into words and numbers.
struct Kind {
  std::vector<std::string> words;  ///< around the numbers
  std::vector<std::int64_t> low, high;
};

Kind kind_of(std::string_view name) {
  Kind kind{{""}, {}, {}};
  while (!name.empty()) {
    if (!is_digit(name.front())) {
      kind.words.back() += name.front();
      name.remove_prefix(1);
      continue;
    }
    kind.low.push_back(std::stoll(std::string(take_number(name))));
    kind.words.emplace_back();
  }
  kind.high = kind.low;
  return kind;
}

std::string text(const Kind& kind) {
  std::string out = kind.words.front();
  for (std::size_t i = 0; i < kind.low.size(); ++i) {
    const bool one = kind.low[i] == kind.high[i];
    out += std::to_string(kind.low[i]) + (one ? "" : ".." + std::to_string(kind.high[i])) + kind.words[i + 1];
  }
  return '"' + out + '"';
}

}  // namespace

std::vector<std::int32_t> links_named(const Topology& topology, const std::string& name) {
  const std::vector<std::string> patterns = directions(name);
  std::vector<std::int32_t> out;
  for (std::int32_t l = 0; l < topology.link_count(); ++l) {
    const std::string here = topology.link_name(l);
    if (std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p, here); })) out.push_back(l);
  }
  return out;
}

std::vector<std::string> kinds_of_links(const Topology& topology) {
  std::vector<Kind> kinds;
  for (std::int32_t l = 0; l < topology.link_count(); ++l) {
    const Kind one = kind_of(topology.link_name(l));
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.words == one.words; });
    if (known == kinds.end()) {
      kinds.push_back(one);
      continue;
    }
    for (std::size_t i = 0; i < one.low.size(); ++i) {
      known->low[i] = std::min(known->low[i], one.low[i]);
      known->high[i] = std::max(known->high[i], one.high[i]);
    }
  }
  std::vector<std::string> out;
  for (const Kind& k : kinds) out.push_back(text(k));
  return out;
}

}  // namespace tandem
