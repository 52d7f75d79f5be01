#pragma once
// The layout of --help.

#include <CLI/CLI.hpp>
#include <string>

namespace tandem::program {

/// CLI11's help in two columns of 100 characters together. The left one has an option's names and the kind of its value. The right
/// one also says its default, what it needs and what it excludes. Of several long names it has the first: the others are older.
class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool positional) const override;
  std::string make_option_name(const CLI::Option* option, bool positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* app) const override;
};

}  // namespace tandem::program
