#pragma once
// Peak of a stage's live bytes over all tasks, counted while its program is written.
//
// A buffer lives from its first to its last instance. In the first instance, a tensor of it is allocated by
// the first task that touches it. In the last instance, it is freed after the last such task. This follows
// frameworks, which allocate and free a layer's tensors per operation, so that the peak falls inside a layer.

#include <vector>

#include "models/graph/slot_tensors.hpp"
#include "models/lowering/program/repeat_detector.hpp"

namespace tandem::lowering {

/// Index of a piece of memory whose readers and writers are tracked as one.
using BufferId = std::int32_t;
inline constexpr BufferId kNoBuffer = -1;

/// Bytes of a template's tensors, by task.
struct TemplateTensors {
  explicit TemplateTensors(const Template& t);

  std::vector<std::int64_t> scratch;  ///< bytes of scratch, by task
  std::vector<std::int64_t> ahead;    ///< bytes of scratch just before the task writes its outputs, by task
  std::int64_t most_scratch = 0;      ///< maximum of both lists
  std::vector<TensorSpans> slots;
  /// Bytes of slot `s` that are not allocated yet when `task` runs. `behind`: bytes of it that are freed by then.
  std::int64_t before(std::size_t s, std::int64_t task) const;
  std::int64_t behind(std::size_t s, std::int64_t task) const;
};

class LiveCount {
 public:
  /// The buffer that an instance's slot is bound to.
  struct Bound {
    BufferId buffer = kNoBuffer;
    MemoryKind kind = MemoryKind::activations;
    Pool pool = Pool::computation;
    std::int64_t offset = 0;   ///< bytes into the buffer
    Bytes bytes;               ///< of the slot
    bool comes = false;        ///< this instance is the first to have the buffer
  };

  /// add: a buffer is alive from the next instance on. remove: it is dead after the last instance.
  void add(MemoryKind kind, Pool pool, Bytes bytes);
  void remove(BufferId buffer, MemoryKind kind, Pool pool, Bytes bytes);
  /// Ends the removals after the last instance. Returns whether the next one may set a new peak; if so, call instance() for it.
  bool next(const TemplateTensors& tensors);
  /// Counts the next instance. `slots`: bindings from slot 1 on; moved from.
  void instance(TemplateId id, const TemplateTensors& tensors, std::vector<Bound>& slots);
  /// Settles the last instance.
  void settle();
  /// Shows the detector all live bytes, and those of the last instance that are not settled. Peaks are left out: they only grow.
  void show(RepeatDetector& r) const;

  Bytes peak() const { return peak_; }
  const BytesByKind& at_peak() const { return at_peak_; }  ///< split of peak()
  /// Sum of each pool's own peak, minus peak().
  Bytes apart_in_pools() const;

 private:
  /// The largest scratch at a task, minus slot bytes not allocated or already freed then.
  struct Most {
    std::int64_t bytes = 0;
    std::size_t task = 0;
    bool ahead = false;  ///< just before the task writes its outputs
  };
  using Slots = std::uint64_t;  ///< one bit per slot
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
  std::vector<std::vector<Known>> known_;  ///< by template, only a few each
  // State of the last added instance:
  TemplateId id_;
  const TemplateTensors* tensors_ = nullptr;  ///< null: nothing to settle
  std::vector<Bound> slots_;
  BytesByKind live_then_{};
  std::array<Bytes, kPools> in_pool_then_{};
  Slots coming_ = 0, going_ = 0;
};

}  // namespace tandem::lowering
