#pragma once
// Words for messages: the nearest known name, lists, plain numbers.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, letter case ignored
/// (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known name that `word` most likely meant: the shortest that it begins; else fewest edits, the first among equals; a name that contains the word
/// (or is contained in it) where nothing is a few edits away. Empty when nothing is near.
std::string nearest(std::string_view word, std::span<const std::string> known);

/// "a, b and c".
std::string list_text(std::span<const std::string> words, std::string_view last = "and");

/// Cuts a value for a message: at most `limit` bytes, "..." where something was left out, never inside a character.
std::string shortened(std::string_view text, std::size_t limit = 60);

/// Control characters as "\x1b", so that a text from a file cannot steer a terminal: those below a blank that `kept` does not name,
/// DEL, and U+0080 to U+009F.
std::string printable(std::string_view text, std::string_view kept = "");

/// Cuts out the middle of a text: at most `limit` bytes, never inside a character.
std::string without_middle(std::string_view text, std::size_t limit);

/// The divisors of n, ascending; n > 0.
std::vector<std::int64_t> divisors(std::int64_t n);

/// "use 1, 2, 4 or 8": up to eight of `values`, those nearest to `wanted` where there are more.
std::string use_one_of(std::vector<std::int64_t> values, std::int64_t wanted);

}  // namespace tandem
