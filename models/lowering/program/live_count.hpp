#pragma once
// The most bytes that a stage has alive at any task, counted while its program is written.
//
// A buffer lives from its first to its last instance. Inside the first instance its tensors are allocated by the first task that touches
// them, inside the last they are freed after the last one: frameworks allocate and free a layer's tensors operation by operation,
// and the peak falls inside a layer.

#include <vector>

#include "models/graph/slot_tensors.hpp"
#include "models/lowering/program/repeat_detector.hpp"

namespace tandem::lowering {

/// Index of a piece of memory whose readers and writers are followed together.
using BufferId = std::int32_t;
inline constexpr BufferId kNoBuffer = -1;

/// A template's tensors by task.
struct TemplateTensors {
  explicit TemplateTensors(const Template& t);

  std::vector<std::int64_t> scratch;  ///< bytes, by task
  std::vector<std::int64_t> ahead;    ///< bytes just before what the task writes is there
  std::int64_t most_scratch = 0;      ///< the largest of both
  std::vector<TensorSpans> slots;
  /// Bytes of slot `s` that are not there yet when `task` runs, or not any more.
  std::int64_t before(std::size_t s, std::int64_t task) const;
  std::int64_t behind(std::size_t s, std::int64_t task) const;
};

class LiveCount {
 public:
  /// What a slot of an instance is bound to.
  struct Bound {
    BufferId buffer = kNoBuffer;
    MemoryKind kind = MemoryKind::activations;
    Pool pool = Pool::computation;
    std::int64_t offset = 0;   ///< bytes into the buffer
    Bytes bytes;               ///< of the slot
    bool comes = false;        ///< no instance before has had the buffer
  };

  /// A buffer of a kind is there from the next instance on, or behind the last one not any more.
  void add(MemoryKind kind, Pool pool, Bytes bytes);
  void remove(BufferId buffer, MemoryKind kind, Pool pool, Bytes bytes);
  /// Nothing more is removed behind the last instance. Whether the next one may have more than any before: if so it is to be given.
  bool next(const TemplateTensors& tensors);
  /// The next instance; `slots`: those from slot 1 on, which are taken.
  void instance(TemplateId id, const TemplateTensors& tensors, std::vector<Bound>& slots);
  /// Behind the last instance.
  void settle();
  /// What is alive, and what of the last instance is not settled. The peaks so far are no part of it: they only grow.
  void show(RepeatDetector& r) const;

  Bytes peak() const { return peak_; }
  const BytesByKind& at_peak() const { return at_peak_; }  ///< split of peak()
  /// What pools need at most, each for itself, past peak().
  Bytes apart_in_pools() const;

 private:
  /// Most scratch at a task, less what has not come or has gone then.
  struct Most {
    std::int64_t bytes = 0;
    std::size_t task = 0;
    bool ahead = false;  ///< of what it writes
  };
  using Slots = std::uint64_t;  ///< a bit each
  struct Known {
    Slots coming, going;
    Most most;
  };
  inline Most most(Slots coming, Slots going);
  Most search(Slots coming, Slots going) const;
  inline bool alone(std::size_t slot) const;
  inline void note(const Most& most, Slots coming, Slots going);

  BytesByKind live_{}, at_peak_{};
  std::array<Bytes, kPools> in_pool_{}, pool_peaks_{};
  Bytes peak_;
  std::vector<std::vector<Known>> known_;  ///< by template, a handful each
  // The instance that was added last:
  TemplateId id_;
  const TemplateTensors* tensors_ = nullptr;  ///< none: nothing is to be settled
  std::vector<Bound> slots_;
  BytesByKind live_then_{};
  std::array<Bytes, kPools> in_pool_then_{};
  Slots coming_ = 0, going_ = 0;
};

}  // namespace tandem::lowering
