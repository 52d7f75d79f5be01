#pragma once
// Kinds of values that a framework takes for its options: numbers, switches, its own words.

#include <string>
#include <vector>

#include "models/arguments/table.hpp"

namespace tandem::arguments {

/// Gives numbers that a file has as texts their value. Throws ConfigError for options that the table reads and whose value the framework
/// does not take: a word for a number, an unknown word, "auto" for a field that nobody fills in. `automatic`: fields that said "auto".
void require_kinds(const Table& table, nlohmann::json& values, const std::vector<std::string>& automatic, const std::string& file);

}  // namespace tandem::arguments
