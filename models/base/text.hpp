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

/// The known name most likely meant by `word`: the shortest that starts with it; else the fewest
/// edits, first among equals; else one that contains it or is contained in it. Empty if none is near.
std::string nearest(std::string_view word, std::span<const std::string> known);

/// "a, b and c".
std::string list_text(std::span<const std::string> words, std::string_view last = "and");

/// Cuts a value for a message: at most `limit` bytes, "..." where something was left out, never inside a character.
std::string shortened(std::string_view text, std::size_t limit = 60);

/// Escapes control characters as "\x1b", so that a file's text cannot control
/// a terminal: those below a blank except `kept`, DEL, and U+0080 to U+009F.
std::string printable(std::string_view text, std::string_view kept = "");

/// Cuts out the middle of a text: at most `limit` bytes, never inside a character.
std::string without_middle(std::string_view text, std::size_t limit);

/// The divisors of n, ascending; n > 0.
std::vector<std::int64_t> divisors(std::int64_t n);

/// "use 1, 2, 4 or 8": at most eight of `values`, the nearest to `wanted`.
std::string use_one_of(std::vector<std::int64_t> values, std::int64_t wanted);

}  // namespace tandem
