#pragma once
// Which parameters a stage owns and where they lie in its flat buffers.
//
// The flat order is the order in which the backward pass completes gradients (head, last layer .. first, embedding), so a
// data-parallel bucket is one contiguous range that can leave while the rest is still being computed. There is no padding:
// payloads are parameter counts, and sizes that matter to a device are multiples of its vector width already.

#include <vector>

#include "models/lowering/shapes.hpp"
#include "models/task_graph.hpp"

namespace tandem::lowering {

/// A contiguous part of the flat buffers that one template works on.
struct Region {
  std::int64_t offset = 0;    ///< elements
  std::int64_t elements = 0;
};

/// Offsets (elements) of a block's parameters from the start of its region. Equal for all layers. A parameter that the
/// model does not have is empty: the next one starts where it would.
struct BlockParams {
  std::int64_t ln1_weight, ln1_bias, qkv_weight, qkv_bias, proj_weight, proj_bias;
  std::int64_t ln2_weight, ln2_bias, fc1_weight, fc1_bias, fc2_weight, fc2_bias;
  std::int64_t elements;
};
/// Of the embedding region; -1 where the model has no such parameter.
struct EmbeddingParams {
  std::int64_t word, position = -1, norm_weight = -1, norm_bias = -1;
  std::int64_t elements;
};
/// Of the head region. `output` is -1 when the tied embedding of the same stage is the output matrix.
struct HeadParams {
  std::int64_t ln_weight, ln_bias, output = -1;
  std::int64_t elements;
};

BlockParams block_params(const Shapes& s);
EmbeddingParams embedding_params(const Shapes& s);
HeadParams head_params(const Shapes& s, bool own_output);

/// What a stage holds.
struct StagePart {
  std::int64_t first_layer = 0, layers = 0;
  bool first = false, last = false;    ///< has the embedding / has the head
  std::int64_t total_layers = 0;       ///< of the model
  bool own_output() const { return last && !(first && tied); }
  bool tied = false;
};

struct StageParams {
  std::vector<Param> params;           ///< ascending offset
  Region head, embedding;              ///< empty where the stage has none
  std::vector<Region> layers;          ///< by local layer
  std::int64_t flat_elements = 0;
};
StageParams stage_params(const Shapes& s, const StagePart& part);

/// Number of parameter tensors of the whole model: the length of the norm vector. A tied output matrix is not one.
std::int64_t global_parameter_count(const Shapes& s, std::int64_t total_layers);

}  // namespace tandem::lowering
