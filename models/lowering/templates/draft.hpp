#pragma once
// A template while it is written. Its scratch has no offsets yet, so tasks can still be fused and split.

#include <string>
#include <utility>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem::lowering {

/// A tensor of a draft: in a slot, or scratch without an offset yet.
struct Value {
  std::uint16_t slot = 0;
  std::int32_t scratch = -1;    ///< index of the scratch tensor; -1: in a slot
  DType dtype = DType::fp32;
  std::int64_t offset = 0;      ///< bytes into the slot or the scratch tensor
  std::int64_t elements = 0;
  std::int64_t stride = 0;      ///< bytes between the shares of neighbouring ranks
  std::int32_t shards = 1;
  Group shard_group = Group::tensor;

  /// `count` elements starting `first` elements in.
  Value part(std::int64_t first, std::int64_t count) const;
  /// The rank's own one of `shards` equal parts, by its position in `group`.
  Value share(Group group, std::int64_t shards) const;
  /// Bytes from the start of the slot or scratch tensor to the end of the last rank's share.
  std::int64_t end() const { return offset + (shards - 1) * stride + bytes_of(dtype, elements).count(); }
  bool overlaps(const Value& other) const {
    return slot == other.slot && scratch == other.scratch && offset < other.end() && other.offset < end();
  }
};

/// Copies a tensor of the size and type of `v`.
inline Accumulate copy_of(const Value& v) { return {v.elements, v.dtype, v.dtype, true}; }

struct Draft {
  std::string name;
  Op op;
  DType dtype = DType::fp32;          ///< compute type
  Stream stream = Stream::compute;
  std::vector<Value> in, out;
  std::int32_t id = -1;               ///< identifies this task in other tasks' `after`
  std::vector<std::int32_t> after;    ///< ids of earlier tasks that it waits for, even without shared memory
  std::vector<Value> held{};          ///< scratch allocated while it runs but never touched: a framework's temporaries
  std::vector<Value> held_ahead{};    ///< likewise, but freed before its outputs are allocated
  bool repeats_none = false;          ///< a product of the forward pass that no forward template computes
};

struct DraftTemplate {
  std::string name;
  DType compute = DType::fp32;
  std::vector<Slot> slots;            ///< sizes are set later
  std::vector<Draft> drafts;          ///< in issue order
  std::vector<Bytes> scratch;         ///< aligned sizes; 0: removed

  Value new_scratch(DType dtype, std::int64_t elements) {
    scratch.emplace_back(arena_aligned(bytes_of(dtype, elements).count()));
    return {0, static_cast<std::int32_t>(scratch.size() - 1), dtype, 0, elements};
  }
};

/// Whether a task adds the template's gradient to the accumulated gradient of earlier micro-batches.
bool adds_gradient(const DraftTemplate& t, const Draft& d);

struct Fusion;

/// Fuses tasks that one kernel of set `f` performs together (fuse.cpp).
void join_tasks(DraftTemplate& t, const Fusion& f);
/// Splits tasks that set `f` performs in several kernels (split.cpp). The new
/// tasks touch the operands of the original task and scratch of their own.
void split_tasks(DraftTemplate& t, const Fusion& f);
/// Inserts a fill task before each task that writes a new tensor (uninitialized.cpp). The tensor
/// is allocated earlier for it, but no other tensor ends in between, so live bytes do not grow.
void fill_tensors(DraftTemplate& t);

}  // namespace tandem::lowering
