#pragma once
// BERT's vocab.txt.

#include "exec/tokenizer/formats/tokenizer_files.hpp"
#include "exec/tokenizer/json_tokenizer.hpp"

namespace tandem::exec {

/// Reads a token a line by the rules of transformers' BertTokenizer, which the folder's tokenizer_config.json may change. Throws
/// ConfigError if a line is no token, or if tokens in upper case leave open whether a text is made lower case.
TokenizerParts read_word_pieces(const TokenizerFiles& files);

}  // namespace tandem::exec
