#pragma once
// Facts of a plan that the input pipeline needs.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem {

/// Which training example a sequence of the data becomes.
enum class ExampleKind : std::uint8_t {
  next_token,  ///< each position predicts the next token
  masked,      ///< some positions are masked and predicted (BERT)
  prefix,      ///< an encoder's sequence, then a decoder's (T5)
};

struct DataShape {
  ExampleKind kind = ExampleKind::next_token;
  std::int64_t seq_length = 0, decoder_seq_length = 0;  ///< positions; decoder_seq_length: only for `prefix`
  std::int64_t micro_batch_size = 0, global_batch_size = 0;  ///< sequences
  std::int64_t context = 1;                             ///< context-parallel ranks that share a sequence
  std::int64_t masked_positions = 0;                    ///< per sequence
  std::int32_t mask_token = 0;                          ///< the last token of the vocabulary
  bool types = false;                                   ///< tokens have types
  std::int64_t mtp = 0;                                 ///< modules of multi-token prediction
  bool separate = false;                                ///< tokens see only their own document
  std::uint64_t seed = 0;

  std::int64_t vocab_size() const { return std::int64_t{mask_token} + 1; }
};
DataShape data_shape(const Plan& plan);

}  // namespace tandem
