#include "experiments/tandem/commands/help_format.hpp"

#include <regex>

namespace tandem::program {

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  static const std::regex range(R"((\w+)(,\.\.\.)?:\w+ in \[(\S+) - (\S+?)\])"), kind(R"(\w+:(\w+))"), twice(R"((,\.\.\.) \.\.\.)");
  const std::string text = std::regex_replace(CLI::Formatter::make_option_opts(option), range, "$1 $3..$4$2");
  return std::regex_replace(std::regex_replace(text, kind, "$1"), twice, "$1") + ' ';  // at least two spaces before the description
}

}  // namespace tandem::program
