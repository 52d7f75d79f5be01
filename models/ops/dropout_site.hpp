#pragma once
// Where random masks are drawn. Conventions: models/ops/op.hpp.

#include <cstdint>

namespace tandem {

/// Where a random mask is drawn; with (seed, step, layer, global index) it names every random number of a run.
enum class DropoutSite : std::uint8_t {
  embedding, attention, attention_output, mlp_output, cross_attention, cross_attention_output
};

}  // namespace tandem
