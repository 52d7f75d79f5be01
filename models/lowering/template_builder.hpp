#pragma once
// Writes a template task by task. Dependencies between streams follow from what tasks read and write; scratch tensors
// are laid out by lifetime, and where bytes are reused across streams the builder adds the dependency that makes it safe.

#include <string>
#include <vector>

#include "models/task_graph.hpp"

namespace tandem::lowering {

/// A tensor while a template is being written: in a slot, or scratch whose place is not known yet.
struct Value {
  std::uint16_t slot = 0;
  std::int32_t scratch = -1;    ///< index of the scratch tensor, -1: external
  DType dtype = DType::fp32;
  std::int64_t offset = 0;      ///< bytes into the slot or the scratch tensor
  std::int64_t elements = 0;
  std::int64_t stride = 0;      ///< bytes between the shares of neighbouring ranks
  std::int32_t shards = 1;
  Group shard_group = Group::tensor;

  /// `count` elements starting `first` elements in.
  Value part(std::int64_t first, std::int64_t count) const;
  /// The rank's own of `shards` equal parts, by its place in `group`.
  Value share(Group group, std::int64_t shards) const;
};

/// Copies a tensor of the size and type of `v`.
inline Accumulate copy_of(const Value& v) { return {v.elements, v.dtype, v.dtype, true}; }

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
  explicit TemplateBuilder(std::string name, DType compute);

  /// Products of linear layers added from here on compute in `t`.
  void products_in(DType t) { product_ = t; }
  /// A product that computes in the type of activations whatever its neighbours do.
  void keep_wide(std::uint16_t task) { drafts_[task].task.dtype = compute_; }

  std::uint16_t slot(std::string name, MemoryKind kind);
  /// All of slot `s`, `elements` long.
  Value whole(std::uint16_t s, DType dtype, std::int64_t elements) const { return {s, -1, dtype, 0, elements}; }
  Value scratch(DType dtype, std::int64_t elements);

  /// Appends a task and returns its index. Operand order is the operation's.
  std::uint16_t add(std::string name, Op op, std::vector<Value> in, std::vector<Value> out,
                    Stream stream = Stream::compute);
  /// `task` also waits for the earlier task `on`.
  void depend(std::uint16_t task, std::uint16_t on);

  Template finish();

 private:
  struct Draft {
    Task task;
    std::vector<Value> in, out;
  };
  struct Scratch {
    Bytes bytes;
    std::int32_t first = -1, last = -1;  ///< tasks that touch it, in issue order
    std::int64_t offset = 0;
  };

  void touch(const Value& v, std::int32_t task);
  void order_after_conflicts(std::size_t task);
  void place_scratch();
  void order_after_reuse();
  bool is_ordered(std::size_t before, std::size_t after) const;
  Operand operand(const Value& v) const;
  Bytes live_peak() const;

  std::string name_;
  DType compute_, product_;
  std::vector<Slot> slots_;
  std::vector<Draft> drafts_;
  std::vector<Scratch> scratch_;
};

}  // namespace tandem::lowering
