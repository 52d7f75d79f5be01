#pragma once
// Layers with a recurrence in place of attention: linear attention and state spaces.

#include <cstdint>

namespace tandem {

/// How a head's state, a matrix of [key_dim, value_dim], changes from one position to the next.
enum class RecurrenceRule : std::uint8_t {
  gated_delta,  ///< it decays, and what it held for the key is replaced (gated DeltaNet, arXiv 2412.06464 section 3.1)
  mamba2,       ///< it decays, and the product of key and value is added (Mamba 2, arXiv 2405.21060 section 6)
};

}  // namespace tandem
