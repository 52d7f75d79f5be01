#pragma once
// Models of sentencepiece, encoded by its library. sentencepiece_absent.cpp is compiled instead of the source if it was not found.

#include <memory>

#include "exec/tokenizer/formats/tokenizer_files.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

/// Reads a model of sentencepiece; ids are those of its SentencePieceProcessor. With special tokens, its <s> goes before each text, as
/// in LlamaTokenizer, or its </s> behind if it has no <s>, as in T5Tokenizer, unless the folder's tokenizer_config.json says otherwise.
/// Throws ConfigError if the model is damaged, InfeasibleError without the library.
std::unique_ptr<Tokenizer> read_sentences(const TokenizerFiles& files);

}  // namespace tandem::exec
