#pragma once
// A text that is tokenized when it is read.

#include <memory>
#include <string>

#include "exec/data/token_file.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

/// Reads a text, or the documents of a .jsonl file one behind the other, as token ids. Throws ConfigError if the file holds ids already.
std::shared_ptr<const TokenFile> read_tokenized(const std::string& path, Tokenizer& tokenizer);

}  // namespace tandem::exec
