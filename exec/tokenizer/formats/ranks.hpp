#pragma once
// Files of tiktoken: a token in base64 and its rank a line.

#include "exec/tokenizer/formats/tokenizer_files.hpp"
#include "exec/tokenizer/json_tokenizer.hpp"

namespace tandem::exec {

/// Reads BPE ranks. Their pattern and special tokens, which the file does not hold, are those of cl100k_base or o200k_base if a
/// .tiktoken file has that name, and else Llama 3's, as a note says. Throws ConfigError that names the line of what is damaged.
TokenizerParts read_ranks(const TokenizerFiles& files);

}  // namespace tandem::exec
