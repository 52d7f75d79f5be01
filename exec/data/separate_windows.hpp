#pragma once
// Windows of a text whose documents are kept apart.

#include <cstdint>
#include <memory>

#include "exec/data/data.hpp"

namespace tandem::exec {

/// The sequences of open_tokens(), with the documents of the file: no position predicts a token of another document. A file without
/// `documents` is one. Throws ConfigError as open_tokens() does, or if no token of the part has another of its document behind it.
std::unique_ptr<TokenSource> open_separate(std::shared_ptr<const TokenFile> file, std::int64_t seq_length, std::uint64_t seed,
                                           const TextPart& part = {});

}  // namespace tandem::exec
