#pragma once
// The templates: what one block, one embedding, one head, one transfer and one update do. Slot order is fixed and named
// here; lower.cpp binds slots to memory.

#include "models/lowering/shapes.hpp"
#include "models/task_graph.hpp"

namespace tandem::lowering {

/// Slots of block_forward (slot 0 is always scratch).
enum class BlockForwardSlot : std::uint16_t { weights = 1, x, y, saved };
/// Slots of block_backward.
enum class BlockBackwardSlot : std::uint16_t { weights = 1, gradients, x, saved, dy, dx };
enum class EmbedForwardSlot : std::uint16_t { weights = 1, tokens, y, saved };
enum class EmbedBackwardSlot : std::uint16_t { weights = 1, gradients, tokens, saved, dy };
enum class HeadForwardSlot : std::uint16_t { norm = 1, output, x, targets, loss, saved };
enum class HeadBackwardSlot : std::uint16_t { norm = 1, output, norm_gradients, output_gradients, x, saved, dx };
/// Slot of send/receive/reduce templates.
inline constexpr std::uint16_t kBufferSlot = 1;
enum class OptimizerSlot : std::uint16_t { gradients = 1, weights, exp_avg, exp_avg_sq, partials, master };
enum class TieSlot : std::uint16_t { embedding_gradients = 1, tied_gradients };

Template block_forward(const Shapes& s);
/// `first`: the first micro-batch writes gradients, later ones add to them.
Template block_backward(const Shapes& s, bool first);
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
