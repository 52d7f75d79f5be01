#pragma once
// Which attention without a score matrix has a kernel in libraries (cuDNN's) on a GPU.

#include <cstdint>
#include <string_view>

#include "models/base/dtype.hpp"

namespace tandem {

/// What decides it.
struct AttentionTraits {
  DType operands;                     ///< type of queries, keys and values
  double dropout = 0;                 ///< of probabilities
  bool alibi = false;
  bool window = false;                ///< queries see some of the earlier keys only
  bool soft_cap = false;
  bool documents = false;             ///< queries see only their own document's keys
  bool gathers_ranks = false;         ///< rows of several context ranks stand side by side: all_gather, ulysses
  std::int64_t head_dim = 0, value_dim = 0;
};

/// Why no library computes it, as the end of a sentence; empty if one does. Follows exec/device/attention_calls.cpp.
constexpr std::string_view why_no_library(const AttentionTraits& a) {
  constexpr std::int64_t kStep = 8, kLongest = 256;  // head sizes that libraries' tiles support
  if (bits(a.operands) != 16) return "operands do not have 16 bits";
  if (a.documents) return "documents are kept apart";
  if (a.dropout > 0) return "dropout of attention has masks by global position";
  if (a.window) return "queries see a part of the earlier keys";
  if (a.alibi) return "positions are ALiBi";
  if (a.soft_cap) return "scores have a soft cap";
  if (a.head_dim % kStep != 0 || a.head_dim > kLongest) return "heads have a size that libraries lack";
  if (a.value_dim != a.head_dim) return "values are not as wide as keys";
  if (a.gathers_ranks) return "parallel.context_mode leaves rows of ranks out of order (ring does not)";
  return "";
}

}  // namespace tandem
