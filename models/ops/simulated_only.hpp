#pragma once
// Operations that only the simulator supports: no backend has a kernel for them.

#include <type_traits>

#include "models/ops/indexer.hpp"

namespace tandem {

template <class O, class... Kinds>
inline constexpr bool kOneOf = (std::is_same_v<O, Kinds> || ...);

/// Operations of block-level indexers.
template <class O>
concept SimulatedOnly = kOneOf<O, IndexBlocks, IndexBlocksBackward>;

}  // namespace tandem
