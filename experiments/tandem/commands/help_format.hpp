#pragma once
// Formats the types of option values in --help.

#include <CLI/CLI.hpp>
#include <string>

namespace tandem::program {

/// CLI11's help, but with "INT 1..9" for "INT:INT in [1 - 9]", and "SHARE" for "FLOAT:SHARE".
class HelpFormat : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
};

}  // namespace tandem::program
