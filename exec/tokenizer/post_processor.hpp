#pragma once
// What is put around the tokens of a text, such as <s> and </s>.

#include <cstdint>
#include <vector>

#include "exec/tokenizer/place.hpp"

namespace tandem::exec {

/// The parts of a text's tokens in order: ids, or the text's own tokens where there are none.
using Template = std::vector<std::vector<std::int32_t>>;

/// Reads tokenizer.json's `post_processor`: what it does to one text with its special tokens. Throws ConfigError for what is not known.
Template read_post_processor(const Place& place);

}  // namespace tandem::exec
