#pragma once
// Switches of a framework's file, in the forms that its program takes.

#include <optional>
#include <string>

#include "models/arguments/table.hpp"

namespace tandem::arguments {

/// True or false; nothing where the value is neither in any form. The forms of pydantic's `bool`, which DeepSpeed and Axolotl use.
std::optional<bool> switch_of(const nlohmann::json& value);

/// Makes "true", "False", "on", 1 and 0 true or false in fields that an expression of the table compares with true or false. Of a
/// table of options: in the file that an option names, `ds.NAME`. Programs that read such files take these forms for switches.
/// Throws ConfigError for a field whose default is true or false and that has another value, if no expression knows other values of it.
void read_switches(const Table& table, nlohmann::json& values, const std::string& file);

}  // namespace tandem::arguments
