#pragma once
// How --help says what a value must be.

#include <CLI/CLI.hpp>
#include <string>

namespace tandem::program {

/// CLI11's help with "INT 1..9" for its "INT:INT in [1 - 9]", and "SHARE" for "FLOAT:SHARE".
class HelpFormat : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
};

}  // namespace tandem::program
