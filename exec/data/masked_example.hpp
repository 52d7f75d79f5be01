#pragma once
// Training examples of models that do more than predict the next token. BERT (arXiv 1810.04805 section 3.1) has hidden tokens and
// exchanged halves. T5 (arXiv 1910.10683 section 3.2) has an encoder part and a decoder part.

#include <cstdint>
#include <vector>

namespace tandem::exec {

class TokenSource;

/// A sequence as a model is trained on it: values per position, and one label for the whole.
struct Example {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;  ///< -1: no prediction here
  std::vector<std::int32_t> types;    ///< segment: 0, or 1 for the second half
  std::int32_t label = -1;            ///< 0: the second half follows the first; 1: it is from another sequence
  std::vector<std::int32_t> decoder_tokens{};  ///< decoder input of an encoder-decoder; then targets belong to the decoder
  std::vector<std::int32_t> documents{};  ///< per position: the first one of its document; empty: all is one document
};

/// How examples are made from sequences.
struct Masking {
  std::int64_t seq_length = 0;
  std::int64_t masked = 0;            ///< number of positions per sequence to predict
  std::int32_t mask_token = 0;        ///< larger than every token of the text
  bool segments = true;               ///< the second half has segment type 1
  std::uint64_t seed = 0;
};

/// Sequence lengths of encoder and decoder.
struct PrefixLengths {
  std::int64_t encoder = 0, decoder = 0;
};

/// Next-token prediction: every position of sequence `index` predicts the one behind it. Reads seq_length + 1 tokens of `source`.
Example next_sequence(const TokenSource& source, std::int64_t index, std::int64_t seq_length);

/// Prefix language modelling. The encoder reads the first tokens of sequence `index`; the decoder reads those after them and
/// predicts each next one. Reads encoder + decoder + 1 tokens of `source`.
Example prefix_sequence(const TokenSource& source, std::int64_t index, const PrefixLengths& lengths);

/// BERT example `index`. Half of the sequences get another one's second half, if the source has another. Of the hidden positions,
/// 80 % show the mask, 10 % a random token, 10 % the original. Depends only on seed, index and source.
Example mask_sequence(const TokenSource& source, std::int64_t index, const Masking& masking);

}  // namespace tandem::exec
