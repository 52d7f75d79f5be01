#pragma once
// GPT-2's vocab.json and merges.txt.

#include "exec/tokenizer/formats/tokenizer_files.hpp"
#include "exec/tokenizer/json_tokenizer.hpp"

namespace tandem::exec {

/// Reads a vocabulary and its merges by the rules of transformers' GPT2Tokenizer, or of Qwen2Tokenizer if the folder's
/// tokenizer_config.json names it. Throws ConfigError that names file and line of what is damaged.
TokenizerParts read_byte_pairs(const TokenizerFiles& files);

}  // namespace tandem::exec
