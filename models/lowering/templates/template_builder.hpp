#pragma once
// Writes a template task by task. Dependencies between streams follow from what tasks read and write; scratch tensors
// are laid out by lifetime, and where bytes are reused across streams the builder adds the dependency that makes it safe. Before
// that, tasks are joined and split as the target's kernels do them.

#include <string>
#include <vector>

#include "models/lowering/shapes/fusion.hpp"
#include "models/lowering/templates/draft.hpp"

namespace tandem::lowering {

/// Hands out consecutive aligned places in one slot: the layout of tensors saved for the backward pass.
class SlotLayout {
 public:
  explicit SlotLayout(std::uint16_t slot) : slot_(slot) {}
  Value add(DType dtype, std::int64_t elements);
  Bytes bytes() const { return Bytes(end_); }

 private:
  std::uint16_t slot_;
  std::int64_t end_ = 0;
};

class TemplateBuilder {
 public:
  explicit TemplateBuilder(std::string name, DType compute, const Fusion& fusion = {});

  /// Products of linear layers added from here on compute in `t`.
  void products_in(DType t) { product_ = t; }
  /// Tensor ranks' collectives run in pieces beside the products that they feed or follow: a layer's, not those of the head and
  /// the embedding, which Megatron-Core keeps outside (megatron/core/tensor_parallel/layers.py has no ub_overlap).
  void collectives_in_pieces(bool in_pieces) { in_pieces_ = in_pieces; }
  bool in_pieces() const { return in_pieces_; }
  /// A product that computes in the type of activations whatever its neighbours do.
  void keep_wide(std::uint16_t task) { draft_.drafts[task].dtype = draft_.compute; }

  std::uint16_t slot(std::string name, MemoryKind kind);
  /// All of slot `s`, `elements` long.
  Value whole(std::uint16_t s, DType dtype, std::int64_t elements) const { return {s, -1, dtype, 0, elements}; }
  Value scratch(DType dtype, std::int64_t elements) { return draft_.new_scratch(dtype, elements); }

  /// Appends a task and returns its number. Operand order is the operation's.
  std::uint16_t add(std::string name, Op op, std::vector<Value> in, std::vector<Value> out,
                    Stream stream = Stream::compute);
  /// `task` also waits for the earlier task `on`.
  void depend(std::uint16_t task, std::uint16_t on);

  /// While `task` (of several kernels the last one) runs, scratch of this size lies there that no task touches.
  void hold(std::uint16_t task, DType dtype, std::int64_t elements);

  /// The same just before `task`: gone when what it writes is there.
  void hold_ahead(std::uint16_t task, DType dtype, std::int64_t elements);

  /// Takes the last tasks back, as far as they write nothing but scratch and the slot that `unread` is in.
  void end_without(const Value& unread);

  Template finish();

 private:
  DraftTemplate draft_;
  DType product_;
  bool in_pieces_ = false;
  Fusion fusion_;
};

}  // namespace tandem::lowering
