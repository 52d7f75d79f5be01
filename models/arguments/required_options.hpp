#pragma once
// Options without which there is no plan.

#include <string>

#include "models/arguments/table.hpp"

namespace tandem::arguments {

class TableFacts;

/// Throws ConfigError with a problem for each option that neither the text nor a file beside it gives: sizes of the model and of a
/// sequence, the micro-batch, the vocabulary. Tables whose options name the model have no sizes of it.
void require_options(const Table& table, TableFacts& facts, const std::string& file);

}  // namespace tandem::arguments
