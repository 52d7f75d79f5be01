#pragma once
// What the input pipeline needs to know of a plan.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem {

/// What a sequence of the data becomes.
enum class ExampleKind : std::uint8_t {
  next_token,  ///< every position is asked for the token after it
  masked,      ///< some positions are hidden and asked for (bert)
  prefix,      ///< an encoder's sequence, then a decoder's (t5)
};

struct DataShape {
  ExampleKind kind = ExampleKind::next_token;
  std::int64_t seq_length = 0, decoder_seq_length = 0;  ///< positions; the second of `prefix`
  std::int64_t micro_batch_size = 0;                    ///< sequences
  std::int64_t context = 1;                             ///< ranks that share a sequence
  std::int64_t masked_positions = 0;                    ///< of a sequence
  std::int32_t mask_token = 0;                          ///< the vocabulary's last one
  bool types = false;                                   ///< tokens have types
  std::int64_t mtp = 0;                                 ///< modules of multi-token prediction
  std::uint64_t seed = 0;
};
DataShape data_shape(const Plan& plan);

}  // namespace tandem
