#pragma once
// BPE by ranks, as tiktoken performs it, from tokens as bytes.

#include <cstdint>
#include <string>
#include <vector>

#include "exec/tokenizer/merges.hpp"
#include "exec/tokenizer/model.hpp"
#include "models/base/json.hpp"

namespace tandem::exec {

/// The tokens in the letters of byte-level BPE; the token of rank 0 has the id `first`. Throws ConfigError if a token is there twice, or
/// a byte is none.
Vocabulary vocabulary_of(const std::string& file, const std::vector<std::string>& tokens, std::int32_t first);

/// Every two tokens that are a token together. Their merge has the rank of that token.
Merges merges_of(const std::vector<std::string>& tokens, const Vocabulary& vocabulary);

/// tokenizer.json's `pre_tokenizer` that cuts a text into the matches of a pattern, and these into bytes.
nlohmann::json cuts_of(const std::string& pattern);

}  // namespace tandem::exec
