#pragma once
// The front door: tokenizers in the files of five libraries.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

/// Reads the tokenizer that a file or a folder has (tokenizer_files.hpp). Throws ConfigError that names file, field or line of
/// anything that is missing or not known.
std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path);

/// The token that ends a document: `eos_token` of the tokenizer_config.json or special_tokens_map.json beside the tokenizer, else the
/// format's own; nothing if there is none.
std::optional<std::string> known_end_of_document(const std::string& path, const Tokenizer& tokenizer);

/// The one `eos_token_id` of the model's generation_config.json or config.json there; nothing if neither names exactly one. Throws
/// ConfigError if it is no token of a vocabulary of `vocab_size`.
std::optional<std::int32_t> known_end_id(const std::string& path, std::int64_t vocab_size);

/// known_end_of_document(). Throws ConfigError if nothing says one.
std::string end_of_document(const std::string& path, const Tokenizer& tokenizer);

}  // namespace tandem::exec
