#pragma once
// Which norms of a block selective recomputation runs again.

#include "models/lowering/shapes/shapes.hpp"

namespace tandem::lowering {

/// Whether the output of the norm before attention or a recurrence is kept.
inline bool keeps_first_norm(const Shapes& s) { return s.keep.norms && (s.keep.separate_norms || !s.latent.here()); }

/// The same of the norm before an MLP or experts. An MLP's module may contain it (norm_in_product_module); experts keep their input.
inline bool keeps_second_norm(const Shapes& s) {
  return s.keep.norms && (s.has_experts() ? s.keep.separate_norms : s.keep.mlp_norm);
}

/// The same of the norms of latent attention's compressed rows, which the modules of its up-projections may contain.
inline bool keeps_latent_norms(const Shapes& s) { return s.keep.norms && s.keep.latent_norms; }

}  // namespace tandem::lowering
