#pragma once
// sentencepiece's compiled table of replacements.

#include <memory>

#include "exec/tokenizer/normalizer.hpp"

namespace tandem::exec {

/// Reads a Precompiled normalizer. Its table holds a trie of strings (darts-clone) and their replacements
/// (google/sentencepiece: src/normalizer.cc).
std::unique_ptr<Normalizer> read_precompiled(const Place& place);

}  // namespace tandem::exec
