#pragma once
// Files of frameworks (JSON, TOML, YAML): a framework's whole input, or a file that an option names.

#include <string>
#include <vector>

#include "models/arguments/table.hpp"

namespace tandem::arguments {

/// Whether a file's name is that of a YAML file.
bool is_yaml(const std::string& file);

/// The fields of a file: YAML if its name says so, TOML if its name or its first character does, else JSON. Those that are "auto" are left to the reader:
/// they are taken out and added to `automatic`. Throws ConfigError for another text.
Arguments read_document(const std::string& text, const std::string& file, std::vector<std::string>& automatic);

/// For a framework that reads `several_files`: gives fields of a file names with underscores in place of dashes, and adds those of `other`,
/// the path of a second file, unless it is empty. Throws ConfigError if a field stands twice.
void join_files(const Arguments& first, const std::string& file, const std::string& other, std::vector<std::string>& automatic);

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
