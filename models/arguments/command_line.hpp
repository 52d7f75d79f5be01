#pragma once
// A command as a shell reads it: environment variables, a launcher, a program, options.

#include <vector>

#include "models/arguments/argument_text.hpp"

namespace tandem::arguments {

/// Whether a word is an option with two dashes: "--num-layers", "--swiglu=1".
bool is_option(std::string_view word);

/// Reads a command or a shell script: options, `NAME=value` in front of the program as `env.NAME`, what launcher.hpp reads there, and
/// the command that a shell gets with `-c`. Of several commands the one with a launcher counts. A launcher's option has at most one
/// value. The last of equal options counts. `programs`: those that are no script of Python ("trl sft"). Values are empty if the text has
/// no option. Throws ConfigError for an open quote, a second program, and a command under a condition.
Arguments command_arguments(std::string_view text, const ArgumentNames& names, const std::string& file,
                            const std::vector<std::string>& programs = {});

/// A script that a command without options starts, such as "HL_PP=2 scripts/run.sh". Empty if the text is no such command.
std::string script_of(std::string_view text);

}  // namespace tandem::arguments
