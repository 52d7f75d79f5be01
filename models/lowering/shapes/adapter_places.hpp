#pragma once
// The adapters of a matrix of a layer: its own, or one for each part of it.

#include <string>
#include <vector>

#include "models/lowering/shapes/shapes.hpp"
#include "models/plan/adapter_parts.hpp"

namespace tandem::lowering {

/// An adapter. Sizes are those of a rank.
struct AdapterPlace {
  std::string name;            ///< of the matrix, or of a part: "qkv", "qkv.q"
  std::int64_t out = 0;        ///< rows of B
  PartColumns part{};          ///< where its output is among the matrix' columns; width 0: it is all of them
  std::int64_t kv_rows = 0;    ///< last rows of B, which are of keys and values
};

/// The adapters of matrix `name`, which has `out` rows. Empty: it has none.
std::vector<AdapterPlace> adapters_of(const Shapes& s, const std::string& name, std::int64_t out);

}  // namespace tandem::lowering
