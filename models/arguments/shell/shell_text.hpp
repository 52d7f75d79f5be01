#pragma once
// A text as a shell reads it: words, with the variables that the text itself sets.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::arguments {

/// A simple command: what stands between `;`, `&&`, `|` and, in a script, ends of lines.
struct ShellStatement {
  std::vector<std::string> words;
  bool certain = true;  ///< false in a condition, a loop or a function, and behind `||`
};

/// Whether a text is a shell's script, by its first line or its file's name.
bool is_script(std::string_view text, const std::string& file);

/// The statements of a text. Variables that it sets for certain have their values; `${NAME:-WORD}` of others is WORD, and any other
/// use of them stays as it is written. A script's "$@" is empty, and its #SBATCH lines set SLURM's numbers. In a text that is no
/// script, `;` and `|` are part of a word unless they stand alone. Throws ConfigError for an open quote.
std::vector<ShellStatement> shell_statements(std::string_view text, bool script, const std::string& file);

/// "XLA_USE_BF16=1" as a name and what is behind the sign; an empty name for any other word.
struct ShellAssignment {
  std::string name, value;
  bool appends = false;  ///< NAME+=value
};
ShellAssignment assignment_of(const std::string& word);

}  // namespace tandem::arguments
