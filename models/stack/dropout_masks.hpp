#pragma once
// Which sets of fused operations keep what a dropout has drawn.

#include "models/plan/plan.hpp"

namespace tandem {

/// Whether dropouts keep a mask for the backward pass. Compilers and the runtime here draw it again where it is read; InternEvo's and
/// llm.c's are not known to keep one.
constexpr bool keeps_dropout_masks(FusionSet s) {
  return s != FusionSet::reference && s != FusionSet::compiled && s != FusionSet::compiled_blocks && s != FusionSet::llm_c &&
         s != FusionSet::internevo;
}

}  // namespace tandem
