#pragma once
// The pre-tokenizer of sentencepiece-like vocabularies.

#include <memory>

#include "exec/tokenizer/pre_tokenizer.hpp"

namespace tandem::exec {

/// Reads a Metaspace: it writes spaces as another character, puts one before the text, and splits before each.
std::unique_ptr<PreTokenizer> read_metaspace(const Place& place);

}  // namespace tandem::exec
