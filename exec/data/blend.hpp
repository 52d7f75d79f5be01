#pragma once
// Several texts as one source, in given shares.

#include <memory>
#include <vector>

#include "exec/data/data.hpp"

namespace tandem::exec {

/// A text and its share of a blend's sequences.
struct BlendPart {
  std::shared_ptr<const TokenSource> source;
  double weight = 1;  ///< above 0; only ratios count
};

/// Each sequence comes from the part that is furthest behind its share; among equals the first. So after any number of sequences every
/// part is within its share by less than the number of parts (NVIDIA/Megatron-LM: megatron/core/datasets/helpers.cpp,
/// build_blending_indices). A part that ends is begun again in another order. Throws ConfigError if there is no part, a weight is not
/// a finite number above 0, or there are more than 255 parts.
std::unique_ptr<TokenSource> blend(std::vector<BlendPart> parts);

}  // namespace tandem::exec
