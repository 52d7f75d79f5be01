#pragma once
// Sequences that hold whole documents, for fine-tuning on answers.

#include <cstdint>
#include <memory>

#include "exec/data/data.hpp"

namespace tandem::exec {

/// How documents become sequences.
struct DocumentSequences {
  std::int64_t length = 0;  ///< positions of a sequence
  std::uint64_t seed = 0;   ///< of their order
  bool packed = false;      ///< a sequence holds as many documents as fit, each for itself (Example::documents); else one
};

/// Documents that do not go whole into sequences.
struct UnfitDocuments {
  std::int64_t cut = 0;        ///< longer than a sequence: only their beginning is read
  std::int64_t unanswered = 0; ///< left out: what would be read of them has no target
};
UnfitDocuments unfit_documents(const TokenFile& file, std::int64_t length);

/// Sequences of the documents of a file with `answers`. Targets are answers; other positions, and those behind the documents, have
/// none. `part`: a part of the documents. Throws ConfigError if no document of the part has a target.
std::unique_ptr<TokenSource> open_documents(std::shared_ptr<const TokenFile> file, const DocumentSequences& how,
                                            const TextPart& part = {});

}  // namespace tandem::exec
