#pragma once
// A whole text once, in order, for evaluations.

#include <cstdint>
#include <memory>

#include "exec/data/data.hpp"

namespace tandem::exec {

struct WindowOptions {
  std::int64_t length = 0;  ///< positions of a window
  std::int64_t stride = 0;  ///< positions from window to window, at most `length`
  bool separate = false;    ///< tokens see only their own document, and no document predicts the next one's first token
};

/// Windows of a text in which every token but the first is a target once. Each window but the first one has the targets of its last
/// `stride` positions, so those see at least length - stride tokens (NVIDIA/Megatron-LM: tasks/zeroshot_gpt/datasets.py, _LMDataset).
/// The last window is filled up from the text's beginning, without targets, as are sequences from sequences() on: experts get tokens
/// that differ. Throws ConfigError if the text
/// has no token to predict.
std::unique_ptr<TokenSource> open_ordered(std::shared_ptr<const TokenFile> file, const WindowOptions& options);

}  // namespace tandem::exec
