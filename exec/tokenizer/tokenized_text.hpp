#pragma once
// A text that is tokenized when it is read.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/data/token_file.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

/// Reads a text, or the documents of a .jsonl file one behind the other, as token ids. `end` follows each document of a .jsonl file that
/// has tokens. Throws ConfigError if the file holds ids already.
std::shared_ptr<const TokenFile> read_tokenized(const std::string& path, Tokenizer& tokenizer,
                                                std::optional<std::int32_t> end = {});

}  // namespace tandem::exec
