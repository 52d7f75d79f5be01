#pragma once
// Commands of frameworks whose runs are configured by fields: `accelerate launch run_clm.py --bf16`, `trl sft --config run.yaml`.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/arguments/table.hpp"

namespace tandem::arguments {

/// Whether a text for a table of fields is a command, and no file of fields.
bool is_run(const std::string& text, const std::string& file);

/// Whether a text without options is such a command: "llamafactory-cli train run.yaml".
bool looks_like_run(const std::string& text, const std::string& file);

/// The table of such a command: by its program, the file that it names, or its options. Nothing for a command of another framework.
/// Throws ConfigError if it names a file that is not there.
std::optional<Table> table_of_run(const std::string& text, const std::string& file);

/// The command's fields, as the framework's file would have them: those of the file that it names, then its options and its words
/// `name=value`. `world_size`: the processes that it starts, where it says them. `launched`: what `accelerate launch` was given, as a
/// file of Accelerate. Fields that are "auto" are taken out and added to `automatic`.
Arguments read_run(const std::string& text, const std::string& file, const Table& table, std::vector<std::string>& automatic);

/// What the user gives beside the arguments.
struct GivenFields {
  const std::vector<std::pair<std::string, nlohmann::json>>& set;
  bool model;  ///< is named
};

/// Throws ConfigError for an argument that a plan may depend on, that has a variable of a shell, and that is not given otherwise.
void require_expanded(const Table& table, const Arguments& arguments, const std::string& file, const GivenFields& given);

}  // namespace tandem::arguments
