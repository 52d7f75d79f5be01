#pragma once
// Sequences with hidden tokens and exchanged halves, as BERT is trained on (arXiv 1810.04805 section 3.1).

#include <cstdint>
#include <vector>

namespace tandem::exec {

class TokenSource;

/// One sequence as a model is trained on it: three numbers for each of its positions, one for all of it.
struct Example {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;  ///< -1: nothing is asked here
  std::vector<std::int32_t> types;    ///< segment: 0, or 1 from the middle on
  std::int32_t label = -1;            ///< 0: the second half follows the first, 1: it comes from elsewhere
};

/// How sequences are made into examples.
struct Masking {
  std::int64_t seq_length = 0;
  std::int64_t masked = 0;            ///< positions of a sequence whose token is asked for
  std::int32_t mask_token = 0;        ///< above every token of the text
  bool segments = true;               ///< the second half has type 1
  std::uint64_t seed = 0;
};

/// Example `index`: half of the sequences get the second half of another one (unless the source has no other), then of the
/// positions to hide 80 % show the mask, 10 % a random token and 10 % what was there. A function of seed, index and source.
Example mask_sequence(const TokenSource& source, std::int64_t index, const Masking& masking);

}  // namespace tandem::exec
