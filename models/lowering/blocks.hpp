#pragma once
// The templates: what one block, one embedding, one head, one transfer and one update do. Slot order is fixed and named
// here; lower.cpp binds slots to memory.

#include "models/lowering/shapes.hpp"
#include "models/task_graph.hpp"

namespace tandem::lowering {

// Slots are bound by name (slot 0 is always scratch):
//   block_forward    weights [experts] x y saved
//   block_backward   weights [experts] gradients [expert_gradients] x saved dy dx [deferred]
//   block_weights    weights [experts] gradients [expert_gradients] x saved deferred
//   embed_forward    word [embedding] tokens [types] y saved
//   embed_backward   word_gradients [embedding embedding_gradients] tokens [types] saved dy
//   head_forward     [head] output x targets [labels] loss saved
//   head_backward    [head head_gradients] output output_gradients x saved dx

/// `moe`: a layer of experts.
Template block_forward(const Shapes& s, bool moe);

enum class BackwardPart : std::uint8_t { whole, input, weights };
struct BlockBackwardKind {
  bool moe = false;
  bool first = false;      ///< gradients are written, not added to: the first micro-batch
  BackwardPart part = BackwardPart::whole;
};
Template block_backward(const Shapes& s, const BlockBackwardKind& kind);
Template embed_forward(const Shapes& s);
Template embed_backward(const Shapes& s, bool first);
/// `own_output`: the head's region holds an output matrix of its own (untied, or a tied copy).
Template head_forward(const Shapes& s, bool first);
Template head_backward(const Shapes& s, bool first);

/// One boundary tensor [tokens, hidden] to or from the stage `stage_offset` away.
Template transfer(std::string name, const Shapes& s, bool send, int stage_offset);

/// One collective on a buffer of its own instance.
struct ReduceSpec {
  std::string name;
  Group group;
  std::int64_t elements;
  DType dtype;
  MemoryKind kind;
};
Template reduce(const ReduceSpec& spec);

/// gradients of the embedding += gradients of the head that shares its matrix (both on one stage).
Template tie(const Shapes& s);

struct OptimizerSpecLocal {
  std::int64_t elements;            ///< flat
  std::int64_t global_parameters;
  bool norm_is_shared;              ///< more than one model-parallel rank
  OptimizerSpec optimizer;
  double clip_grad;
};
/// Norm, clip coefficient and update.
Template optimizer_step(const Shapes& s, const OptimizerSpecLocal& spec);

}  // namespace tandem::lowering
