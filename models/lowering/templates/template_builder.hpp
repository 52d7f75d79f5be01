#pragma once
// Writes a template task by task. Dependencies between streams follow from what tasks read and
// write. Scratch tensors are laid out by lifetime; if streams reuse bytes, the builder adds the
// dependency that makes it safe. Before that, tasks are fused and split as the fusion set says.

#include <string>
#include <vector>

#include "models/lowering/shapes/fusion.hpp"
#include "models/lowering/templates/draft.hpp"

namespace tandem::lowering {

/// Allocates consecutive aligned tensors in one slot, such as those stored for the backward pass.
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
  /// Sets whether tensor-parallel collectives run in chunks beside the products before or after them. True in a layer, but
  /// not in head and embedding, which Megatron-Core leaves out (megatron/core/tensor_parallel/layers.py has no ub_overlap).
  void collectives_in_pieces(bool in_pieces) { in_pieces_ = in_pieces; }
  bool in_pieces() const { return in_pieces_; }
  /// Lets product `task` compute in the activations' type, despite products_in.
  void keep_wide(std::uint16_t task) { draft_.drafts[task].dtype = draft_.compute; }
  /// Says that product `task` of this backward template repeats none of a forward template.
  void repeats_none(std::uint16_t task) { draft_.drafts[task].repeats_none = true; }

  std::uint16_t slot(std::string name, MemoryKind kind);
  /// All of slot `s`, `elements` long.
  Value whole(std::uint16_t s, DType dtype, std::int64_t elements) const { return {s, -1, dtype, 0, elements}; }
  Value scratch(DType dtype, std::int64_t elements) { return draft_.new_scratch(dtype, elements); }

  /// Appends a task and returns its number. Operands are in the operation's order.
  std::uint16_t add(std::string name, Op op, std::vector<Value> in, std::vector<Value> out,
                    Stream stream = Stream::compute);
  /// `task` also waits for the earlier task `on`.
  void depend(std::uint16_t task, std::uint16_t on);

  /// Holds untouched scratch of this size while `task` runs (if split in several kernels: the last one).
  void hold(std::uint16_t task, DType dtype, std::int64_t elements);

  /// Likewise just before `task`; freed when the task's outputs are allocated.
  void hold_ahead(std::uint16_t task, DType dtype, std::int64_t elements);

  /// Removes the last tasks while they write only scratch and the slot of `unread`.
  void end_without(const Value& unread);

  /// Removes all tasks that write only `unread`'s slot and scratch that no remaining task reads.
  void drop_unread(const Value& unread);

  Template finish();

 private:
  void free_unused_scratch();
  DraftTemplate draft_;
  DType product_;
  bool in_pieces_ = false;
  Fusion fusion_;
};

}  // namespace tandem::lowering
