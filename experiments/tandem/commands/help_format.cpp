#include "experiments/tandem/commands/help_format.hpp"

#include <regex>
#include <sstream>

namespace tandem::program {

namespace {

constexpr std::size_t kWidth = 100;    // columns of the whole help
constexpr std::size_t kRight = 30;     // column where descriptions begin
constexpr std::size_t kLongBound = 6;  // digits of a bound that says no more than that there is one

/// `text` with line breaks at blanks, so that lines which begin at column `indent` keep the width.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  std::string out, word;
  std::size_t column = indent;
  while (words >> word) {
    const bool first = out.empty(), fits = column + 1 + word.size() <= kWidth;
    out += first ? word : fits ? ' ' + word : '\n' + std::string(indent, ' ') + word;
    column = (first ? indent : fits ? column + 1 : indent) + word.size();
  }
  return out;
}

std::string row(const std::string& left, const std::string& right) {
  const std::string begin = "  " + left, text = wrapped(right, kRight);
  const bool beside = begin.size() + 2 <= kRight;
  return begin + (beside ? std::string(kRight - begin.size(), ' ') : '\n' + std::string(kRight, ' ')) + text + '\n';
}

/// "--json, --why"; empty if there are none.
std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::sort(names.begin(), names.end());
  return CLI::detail::join(names, ", ");
}

/// "INT 1..9" for "INT:INT in [1 - 9]"; bounds that only keep numbers finite are left out.
std::string with_range(const std::string& kind, const std::string& least, const std::string& most) {
  const bool telling = most.size() < kLongBound && most.find('e') == std::string::npos;
  return telling ? kind + ' ' + least + ".." + most : kind;
}

}  // namespace

HelpFormat::HelpFormat() {
  column_width(kRight);
  label("Positionals", "Arguments");
  label("SUBCOMMAND", "COMMAND");
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  static const std::regex gaps("\n\n\n+");
  return std::regex_replace(CLI::Formatter::make_help(app, std::move(name), mode), gaps, "\n\n");
}

std::string HelpFormat::make_option(const CLI::Option* option, bool positional) const {
  const std::string kind = positional ? "" : make_option_opts(option);
  return row(make_option_name(option, positional) + kind, make_option_desc(option));
}

std::string HelpFormat::make_option_name(const CLI::Option* option, bool positional) const {
  if (positional) return option->get_name(true, false);
  std::string names;
  for (const std::string& name : option->get_snames()) names += '-' + name + ',';
  return option->get_lnames().empty() ? names : names + "--" + option->get_lnames().front();
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  static const std::regex range(R"(^(.*):\w+ in \[(\S+) - (\S+?)\]$)"), choices(R"(^.*:\{(.*)\}$)");
  if (option->get_items_expected_max() == 0) return "";
  const std::string type = option->get_type_name();
  std::smatch parts;
  if (std::regex_match(type, parts, range)) return ' ' + with_range(parts[1], parts[2], parts[3]);
  const std::string more = option->get_items_expected_max() > 1 ? ",..." : "";
  if (std::regex_match(type, parts, choices)) return ' ' + CLI::detail::find_and_replace(parts[1].str(), ",", "|") + more;
  return ' ' + type.substr(0, type.find(':'));
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  const std::string needs = names_of(option->get_needs()), excludes = names_of(option->get_excludes());
  const std::string required = option->get_required() && !option->get_positional() ? "(required) " : "";
  const std::string standard = option->get_default_str().empty() ? "" : " [" + option->get_default_str() + "]";
  return required + option->get_description() + standard + (needs.empty() ? "" : "; needs " + needs) +
         (excludes.empty() ? "" : "; not with " + excludes);
}

std::string HelpFormat::make_description(const CLI::App* app) const { return wrapped(app->get_description(), 0) + '\n'; }

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
  return row(command->get_name(), command->get_description());
}

std::string HelpFormat::make_footer(const CLI::App* app) const {
  std::istringstream lines(app->get_footer());
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string text = wrapped(line, 3 * indent);                      // what goes on stands further in
    out += line.starts_with("  tandem ") ? line : std::string(indent, ' ') + text;  // a call stays one line, to be copied
    out += '\n';
  }
  return out;
}

}  // namespace tandem::program
