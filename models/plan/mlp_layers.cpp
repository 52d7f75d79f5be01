#include "models/plan/mlp_layers.hpp"

namespace tandem {

bool has_mlp_layer(const ModelSpec& model) {
  for (std::int64_t l = 0; l < model.total_blocks(); ++l)
    if (model.kind(l).feed == FeedForward::mlp) return true;
  return false;
}

}  // namespace tandem
