#pragma once
// Files of frameworks (JSON, TOML, YAML): a framework's whole input, or a file that an option names.

#include <string>
#include <vector>

#include "models/arguments/table.hpp"

namespace tandem::arguments {

/// Whether a file's name is that of a YAML file.
bool is_yaml(const std::string& file);

/// Where a file is that another one names: beside it, or there without its folders. The first of both if neither is there.
std::string named_beside(const std::string& name, const std::string& file);
/// The same for a file that must be there. Throws ConfigError, which names `field` of `file`.
std::string required_beside(const std::string& name, const std::string& file, const std::string& field);

/// The fields of a file: YAML if its name says so, TOML if its name or its first character does, else JSON. Those that are "auto" are left to the reader:
/// they are taken out and added to `automatic`. Throws ConfigError for another text.
Arguments read_document(const std::string& text, const std::string& file, std::vector<std::string>& automatic);

/// For a framework that reads `several_files`: gives fields of a file names with underscores in place of dashes, and adds those of `other`,
/// the path of a second file, unless it is empty. Throws ConfigError if a field stands twice.
void join_files(const Arguments& first, const std::string& file, const std::string& other, std::vector<std::string>& automatic);

/// Reads groups of fields that may stand in a JSON file of their own (`groups_in_files`), which the arguments then name. Throws
/// ConfigError if one is not there.
void add_groups(nlohmann::json& values, const Table& table, const std::string& file);

/// Where the file is that the arguments name.
struct ConfigurationPlace {
  std::string given;         ///< a path that the user gave; empty: what the option says, beside the arguments' file
  bool may_miss = false;     ///< go on without it
};

/// A file that an option named: what it is called among the arguments, and its fields that are "auto".
struct AddedFile {
  std::string as;
  std::vector<std::string> automatic;
};

/// Adds the files that options name to the arguments, such as `ds`. A file that the user gave is the option's whose framework it is of.
/// Throws ConfigError if a file is named and cannot be read.
std::vector<AddedFile> add_configurations(Arguments& arguments, const Table& table, const std::string& file,
                                          const ConfigurationPlace& place);

}  // namespace tandem::arguments
