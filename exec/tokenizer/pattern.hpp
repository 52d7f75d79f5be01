#pragma once
// What texts are split at and replaced by: a string, a regular expression or a set of characters.

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "exec/tokenizer/unicode/character_set.hpp"
#include "exec/tokenizer/place.hpp"

namespace tandem::exec {

/// A part of a text: bytes `begin` to `end` - 1, which match a pattern or lie between matches.
struct Segment {
  std::size_t begin, end;
  bool match;
};

/// Cuts texts into segments. Keeps buffers between calls, so each thread needs its own.
class Pattern {
 public:
  virtual ~Pattern() = default;
  /// Calls `take` with the segments of a text that is not empty, in order.
  virtual void cut(std::string_view text, const std::function<void(const Segment&)>& take) = 0;
};

/// The pattern of a Split or Replace: {"String": ...} or {"Regex": ...}.
std::unique_ptr<Pattern> read_pattern(const Place& place);

/// Matches every occurrence of a string. An empty one is refused where it is read.
std::unique_ptr<Pattern> string_pattern(std::string text);

/// Matches each character of a set.
std::unique_ptr<Pattern> set_pattern(CharacterSet set);

/// Matches an expression (regex.hpp).
std::unique_ptr<Pattern> regex_pattern(const std::string& expression, const std::string& file, const std::string& field);

}  // namespace tandem::exec
