#pragma once
// A template while it is being written: tasks whose scratch has no place yet, so that tasks may still be joined and split.

#include <string>
#include <utility>
#include <vector>

#include "models/graph/task_graph.hpp"

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
  std::int32_t id = -1;               ///< what `after` of others calls it
  std::vector<std::int32_t> after;    ///< earlier tasks that it waits for, whatever they touch
  std::vector<Value> held{};          ///< scratch that only lies there while it runs: what a framework allocates and nobody reads
  std::vector<Value> held_ahead{};    ///< the same, gone before what it writes is there
};

struct DraftTemplate {
  std::string name;
  DType compute = DType::fp32;
  std::vector<Slot> slots;            ///< sizes are not known yet
  std::vector<Draft> drafts;          ///< in issue order
  std::vector<Bytes> scratch;         ///< aligned sizes; 0: given up

  Value new_scratch(DType dtype, std::int64_t elements) {
    scratch.emplace_back(arena_aligned(bytes_of(dtype, elements).count()));
    return {0, static_cast<std::int32_t>(scratch.size() - 1), dtype, 0, elements};
  }
};

/// Whether a task adds a gradient that the template has computed to that of earlier micro-batches.
bool adds_gradient(const DraftTemplate& t, const Draft& d);

struct Fusion;

/// Makes one task of several where `f` says that one kernel does them (fuse.cpp).
void join_tasks(DraftTemplate& t, const Fusion& f);
/// Makes several tasks of one where `f` says that each is a kernel (split.cpp). Products that scale no scores, and the other new
/// tasks, touch what the one touched and scratch of their own.
void split_tasks(DraftTemplate& t, const Fusion& f);
/// Puts a task before each that writes a tensor of its own, which fills it (uninitialized.cpp). No more is alive for it: the tensor
/// is there from then on, and nothing ends in between.
void fill_tensors(DraftTemplate& t);

}  // namespace tandem::lowering
