#pragma once
// Files of DeepSpeed (JSON) and torchtitan (TOML, or JSON as it saves it): a framework's whole input, or a file that an option names.

#include <string>
#include <vector>

#include "models/arguments/table.hpp"

namespace tandem::arguments {

/// The fields of a file, TOML if its name or its first character says so, else JSON. Those that are "auto" are left to the reader:
/// they are taken out and added to `automatic`. Throws ConfigError for another text.
Arguments read_document(const std::string& text, const std::string& file, std::vector<std::string>& automatic);

/// Where the JSON file is that the arguments name, and what it is called there.
struct ConfigurationPlace {
  std::string given;         ///< a path that the user gave; empty: what the option says, beside the arguments' file
  bool may_miss = false;     ///< go on without it
};

/// Adds the JSON file that an option names to the arguments, as `ds`. Returns whether there is one. Throws ConfigError if it is
/// named and cannot be read.
bool add_configuration(Arguments& arguments, const Table& table, const std::string& file, const ConfigurationPlace& place,
                       std::vector<std::string>& automatic);

}  // namespace tandem::arguments
