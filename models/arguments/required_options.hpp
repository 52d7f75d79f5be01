#pragma once
// Options without which there is no plan.

#include <string>

#include "models/arguments/table.hpp"
#include "models/arguments/table_facts.hpp"

namespace tandem::arguments {

/// Throws ConfigError with a problem for each option that neither the text nor a file beside it gives: sizes of the model and of a
/// sequence, the micro-batch, the vocabulary.
void require_options(const Table& table, TableFacts& facts, const std::string& file);

}  // namespace tandem::arguments
