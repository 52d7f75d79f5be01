#pragma once
// Mistral's tekken.json: ranks, pattern and special tokens in one file.

#include "exec/tokenizer/json_tokenizer.hpp"

namespace tandem::exec {

/// Whether a document is one.
bool is_tekken(const nlohmann::json& document);

/// Reads one as mistral-common does: ranks follow the special tokens, of which no text has one, and <s> begins a text. Throws
/// ConfigError.
TokenizerParts read_tekken(const Place& document);

}  // namespace tandem::exec
