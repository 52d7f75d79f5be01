#pragma once
// What a shell's variables and `$` expressions stand for.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::arguments {

using Words = std::vector<std::string>;

inline constexpr std::string_view kBlanks = " \t\r\n";

/// Whether a character may begin a variable's name, or stand in it.
bool begins_name(char c);
bool in_name(char c);

/// What variables the text has set. One with several values is an array.
class Variables {
 public:
  /// A value that is not `certain` makes the variable unsure: what it stands for is not known any more.
  void set(const std::string& name, Words values, bool appends, bool certain);
  /// Null for a variable that the text does not set for certain.
  const Words* find(const std::string& name) const;
  bool unsure(const std::string& name) const { return unsure_.contains(name); }

 private:
  std::map<std::string, Words> known_;
  std::set<std::string> unsure_;
};

/// What a `$` and the text behind it stand for.
struct Expansion {
  Words words;         ///< none: nothing
  std::size_t length;  ///< of the text that it replaces
  bool array = false;  ///< words stay apart between quotes
};

/// What the text from a `$` or a backquote on stands for. `$NAME`, `${NAME}`, `${NAME:-WORD}`, arrays, `$((sums))` and `$(expr sums)`
/// have values; anything else stays as it is written.
Expansion expanded(const Variables& variables, std::string_view text);

}  // namespace tandem::arguments
