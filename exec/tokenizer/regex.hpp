#pragma once
// Regular expressions as Oniguruma reads them, which the tokenizers library uses.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/tokenizer/unicode/character_set.hpp"

namespace tandem::exec {

/// One step of a compiled expression. Other steps are named by their distance.
struct RegexStep {
  enum class Kind {
    one,         ///< a character of `set`
    many,        ///< `least` to `most` characters of `set`, as many as possible; gives some back unless `possessive`
    few,         ///< the same, as few as possible
    split,       ///< goes on at `first`, and at `second` if that fails
    jump,        ///< goes on at `first`
    ahead,       ///< the steps behind it up to `accept` match here, or do not if `negated`; goes on at `first`
    behind,      ///< the character before is of `set`, or is not if `negated`
    line_begin,  ///< ^
    line_end,    ///< $
    accept,      ///< the end
  };
  Kind kind;
  const CharacterSet* set = nullptr;
  std::size_t least = 0, most = 0;
  std::ptrdiff_t first = 1, second = 1;
  bool possessive = false, negated = false;
};

/// A compiled expression.
struct RegexProgram {
  std::vector<RegexStep> steps;
  std::vector<std::unique_ptr<CharacterSet>> sets;
};

/// Compiles an expression. It knows alternatives, groups (?:...) and (?i:...), looking ahead (?=...) and (?!...), looking behind at
/// one character, classes, \p{...} of general categories, \s \d \w \h and their complements, and all repetitions. Throws ConfigError
/// that names what else there is; `file` and `field` are its place.
RegexProgram compile_regex(const std::string& pattern, const std::string& file, const std::string& field);

/// Matches a compiled expression. Keeps its stack between calls, so each thread needs one.
class Regex {
 public:
  explicit Regex(RegexProgram program) : program_(std::move(program)) {}
  /// The first match that begins at `from` or later: where it begins and ends. `text` is valid UTF-8.
  std::optional<std::pair<std::size_t, std::size_t>> find(std::string_view text, std::size_t from);

 private:
  enum class Retry { elsewhere, shorter, longer };
  /// What is left to try: at `step` from `at` on; or there from a character less each time, down to `bound`; or from one more,
  /// `bound` times.
  struct Choice {
    Retry how;
    std::ptrdiff_t step;
    std::size_t at, bound;
  };
  std::optional<std::size_t> end(std::string_view text, std::size_t at, std::ptrdiff_t step);
  bool advance(std::string_view text, std::size_t& at, std::ptrdiff_t& step);
  bool repeat(std::string_view text, std::size_t& at, std::ptrdiff_t step);
  bool back(std::string_view text, std::size_t bottom, std::size_t& at, std::ptrdiff_t& step);
  bool longer(std::string_view text, Choice& choice) const;

  RegexProgram program_;
  std::vector<Choice> choices_;
};

}  // namespace tandem::exec
