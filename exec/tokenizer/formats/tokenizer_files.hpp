#pragma once
// Which files a tokenizer has, by their names and first bytes.

#include <cstdint>
#include <string>

namespace tandem::exec {

/// What files hold a tokenizer.
enum class TokenizerFormat : std::uint8_t {
  json,         ///< tokenizer.json of Hugging Face
  merges,       ///< GPT-2's vocab.json and merges.txt
  word_pieces,  ///< BERT's vocab.txt
  sentences,    ///< a model of sentencepiece
  ranks,        ///< BPE ranks of tiktoken
};

/// The files of a tokenizer.
struct TokenizerFiles {
  TokenizerFormat format;
  std::string file;    ///< with the vocabulary
  std::string merges;  ///< of format `merges`, else empty
  std::string folder;  ///< of `file`, with its slash; empty for the current one
};

/// The files that `path` names: one of them, or their folder. Throws ConfigError with what is missing if there are none, several
/// tokenizers, or a part of one; a folder's tokenizer.json comes before all others.
TokenizerFiles find_tokenizer(const std::string& path);

}  // namespace tandem::exec
