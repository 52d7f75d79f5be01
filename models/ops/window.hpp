#pragma once
// Which keys a query sees in a window of attention (sliding: arXiv 2004.05150 section 3.1; in chunks: Llama 4).

#include <cstdint>

namespace tandem {

/// Position of the first key that a query at `position` sees. `window`: keys at most, its own the last of them; 0: all before it.
/// `chunked`: those of its own chunk of `window` positions.
constexpr std::int64_t first_key_seen(std::int64_t position, std::int64_t window, bool chunked) {
  if (window == 0) return 0;
  if (chunked) return position / window * window;
  return position < window ? 0 : position - window + 1;
}

/// Pairs of a query and a key that it sees, in a causal sequence of `length` positions.
constexpr std::int64_t pairs_seen(std::int64_t length, std::int64_t window, bool chunked) {
  if (window == 0 || window >= length) return length * (length + 1) / 2;
  const std::int64_t chunk = window * (window + 1) / 2, rest = length % window;
  if (chunked) return length / window * chunk + rest * (rest + 1) / 2;
  return chunk + (length - window) * window;
}

}  // namespace tandem
