#pragma once
// Which keys a query sees under windowed attention (sliding: arXiv 2004.05150 section 3.1; chunked: Llama 4).

#include <cstdint>

namespace tandem {

/// Position of the first key that a query at `position` sees. `window`: most keys, the query's own
/// included; 0: all earlier ones. `chunked`: only keys of the query's own chunk of `window` positions.
constexpr std::int64_t first_key_seen(std::int64_t position, std::int64_t window, bool chunked) {
  if (window == 0) return 0;
  if (chunked) return position / window * window;
  return position < window ? 0 : position - window + 1;
}

/// pairs * part / whole, rounded down. If `part` divides `whole`, avoids the product, which may overflow 64 bits.
constexpr std::int64_t share_of(std::int64_t pairs, std::int64_t part, std::int64_t whole) {
  if (part == 0) return 0;
  return whole % part == 0 ? pairs / (whole / part) : pairs * part / whole;
}

/// Number of (query, key) pairs that causal attention computes in a sequence of `length` positions.
constexpr std::int64_t pairs_seen(std::int64_t length, std::int64_t window, bool chunked) {
  if (window == 0 || window >= length) return length * (length + 1) / 2;
  const std::int64_t chunk = window * (window + 1) / 2, rest = length % window;
  if (chunked) return length / window * chunk + rest * (rest + 1) / 2;
  return chunk + (length - window) * window;
}

/// Number of pairs if keys are chosen in blocks of `block` positions. A query sees its own block up to itself,
/// and whole blocks before it up to `window` keys in total. `window`: a multiple of `block`; 0: all earlier keys.
constexpr std::int64_t pairs_in_blocks(std::int64_t length, std::int64_t window, std::int64_t block) {
  if (window == 0 || window >= length) return length * (length + 1) / 2;
  const std::int64_t own = pairs_seen(length, block, true), most = window / block - 1;  // blocks before its own
  const std::int64_t whole = length / block, rest = length % block, growing = whole < most ? whole : most;
  const std::int64_t before = growing * (growing - 1) / 2 + (whole - growing) * most;  // summed over whole blocks of queries
  return own + block * (block * before + rest * growing);
}

}  // namespace tandem
