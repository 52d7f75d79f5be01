#pragma once
// Sequences as they are read by models that do not just predict the next token: with hidden tokens and exchanged halves for
// BERT (arXiv 1810.04805 section 3.1), in two parts for T5 (arXiv 1910.10683 section 3.2).

#include <cstdint>
#include <vector>

namespace tandem::exec {

class TokenSource;

/// One sequence as a model is trained on it: numbers for each of its positions, one for all of it.
struct Example {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;  ///< -1: nothing is asked here
  std::vector<std::int32_t> types;    ///< segment: 0, or 1 from the middle on
  std::int32_t label = -1;            ///< 0: the second half follows the first, 1: it comes from elsewhere
  std::vector<std::int32_t> decoder_tokens{};  ///< of an encoder-decoder, which the targets belong to
};

/// How sequences are made into examples.
struct Masking {
  std::int64_t seq_length = 0;
  std::int64_t masked = 0;            ///< positions of a sequence whose token is asked for
  std::int32_t mask_token = 0;        ///< above every token of the text
  bool segments = true;               ///< the second half has type 1
  std::uint64_t seed = 0;
};

/// Lengths of an encoder's and a decoder's sequences.
struct PrefixLengths {
  std::int64_t encoder = 0, decoder = 0;
};

/// Prefix language modelling: the encoder reads the first tokens of sequence `index`, the decoder those that follow and
/// predicts the one after each. Asks `source` for encoder + decoder + 1 tokens.
Example prefix_sequence(const TokenSource& source, std::int64_t index, const PrefixLengths& lengths);

/// Example `index`: half of the sequences get the second half of another one (unless the source has no other), then of the
/// positions to hide 80 % show the mask, 10 % a random token and 10 % what was there. A function of seed, index and source.
Example mask_sequence(const TokenSource& source, std::int64_t index, const Masking& masking);

}  // namespace tandem::exec
