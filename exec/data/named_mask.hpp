#pragma once
// A source whose masked examples hide tokens behind a token of the vocabulary that is not its last one.

#include <cstdint>
#include <memory>

#include "exec/data/data.hpp"

namespace tandem::exec {

struct NamedMask {
  std::int32_t token = 0;       ///< below vocab_size
  std::int64_t vocab_size = 0;  ///< of the model
};

/// `source` with masked examples in which `mask.token` hides tokens. Random tokens that are shown in place of hidden ones come from the
/// rest of the vocabulary. The text may have every token. Its fingerprint depends on the mask.
std::unique_ptr<TokenSource> with_mask(std::unique_ptr<TokenSource> source, const NamedMask& mask);

}  // namespace tandem::exec
