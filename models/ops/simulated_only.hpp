#pragma once
// Operations that only the simulator supports: no backend has a kernel for them.

#include <type_traits>

#include "models/ops/indexer.hpp"
#include "models/ops/recurrence.hpp"

namespace tandem {

template <class O, class... Kinds>
inline constexpr bool kOneOf = (std::is_same_v<O, Kinds> || ...);

/// Operations of block-level indexers, of recurrences, and of gates of attention's output.
template <class O>
concept SimulatedOnly = kOneOf<O, IndexBlocks, IndexBlocksBackward, ShortConv, ShortConvBackward, Recurrence, RecurrenceBackward,
                               GatedNorm, GatedNormBackward, SigmoidGate, SigmoidGateBackward>;

}  // namespace tandem
