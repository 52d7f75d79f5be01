#pragma once
// Which defaults of a stack depend on a field.

#include <set>
#include <string>

namespace tandem {

/// The fields whose default in this stack depends on a field of the plan, by conditions of its entries or of entries for such fields.
/// Throws ConfigError for a stack that cannot be read.
std::set<std::string> dependent_defaults(const std::string& stack, const std::string& field);

}  // namespace tandem
