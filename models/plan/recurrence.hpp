#pragma once
// Layers with a recurrence in place of attention: linear attention and state spaces.

#include <cstdint>

namespace tandem {

/// How a head's state, a [key_dim, value_dim] matrix, changes from one position to the next.
enum class RecurrenceRule : std::uint8_t {
  gated_delta,  ///< decays; replaces the value stored for the key (gated DeltaNet, arXiv 2412.06464 section 3.1)
  mamba2,       ///< decays; adds the outer product of key and value (Mamba 2, arXiv 2405.21060 section 6)
};

}  // namespace tandem
