#pragma once
// Writes one stage's program: instances in issue order, memory of every tensor, and
// edges between instances. Edges follow from which streams read and write which bytes.

#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/lowering/program/arena.hpp"
#include "models/lowering/program/last_touches.hpp"
#include "models/lowering/program/layout.hpp"
#include "models/lowering/program/live_count.hpp"

namespace tandem::lowering {

/// How one stream of a template uses one slot.
struct SlotUse {
  std::uint16_t slot;
  Stream stream;
  bool reads = false, writes = false;
  std::uint16_t first = 0, last = 0, last_write = 0;  ///< tasks
};

/// How a template's streams use scratch. Scratch is shared by all instances but is not a tensor of the program.
struct ScratchUse {
  std::array<std::int32_t, kStreams> last{};   ///< last task that touches it; -1: none
  /// First touches that no computation of the same instance precedes. Earlier instances may still use scratch then.
  std::vector<std::pair<Stream, std::uint16_t>> early;
  std::array<bool, kStreams> open{};           ///< no computation of the instance waits for the stream's last touch
  std::int32_t first_computation = -1;         ///< task; -1: none
};

/// All templates of a graph, each with its slot uses.
class TemplateLibrary {
 public:
  TemplateId add(Template t);
  const ScratchUse& scratch(TemplateId id) const { return scratch_[id.index()]; }
  const TemplateTensors& tensors(TemplateId id) const { return tensors_[id.index()]; }
  /// Whether a task of the template touches `slot`.
  bool touches(TemplateId id, std::uint16_t slot) const;
  /// Index of the slot with this name. Throws ContractError if the template has none.
  std::uint16_t slot(TemplateId id, std::string_view name) const;
  const Template& operator[](TemplateId id) const { return templates_[id.index()]; }
  const std::vector<SlotUse>& uses(TemplateId id) const { return uses_[id.index()]; }
  std::vector<Template> take() { return std::move(templates_); }

 private:
  std::vector<Template> templates_;
  std::vector<std::vector<SlotUse>> uses_;
  std::vector<ScratchUse> scratch_;
  std::deque<TemplateTensors> tensors_;  ///< a deque keeps them in place
};

/// What a slot is bound to: consecutive buffers, and the slot's offset in the first one.
struct Binding {
  BufferId first = kNoBuffer;
  std::int32_t count = 1;        ///< buffers with consecutive ids, adjacent in the arena
  std::int64_t offset = 0;       ///< bytes
  std::int64_t each = 0;         ///< added to `offset` once per micro-batch, in bytes
};

struct InstanceKey {
  std::int32_t layer = -1, micro_batch = -1, chunk = 0;
  Phase phase = Phase::forward;
};

class ProgramBuilder {
 public:
  ProgramBuilder(const TemplateLibrary& library, StageId stage);

  /// Allocates memory for the whole step. `pieces` (bytes each) are adjacent, in order, and
  /// tracked separately. Returns the id of the first piece; the others have the next ids.
  BufferId persistent(std::string_view name, MemoryKind kind, const std::vector<Bytes>& pieces, Pool pool = Pool::computation);
  /// As persistent(), for memory that the plan's framework does not have: the arena has room for it, but it counts as 0 bytes.
  BufferId persistent_uncounted(std::string_view name, MemoryKind kind, Bytes bytes);
  /// As persistent(), for memory that a framework allocates on first write.
  /// Each piece counts as alive from the first instance that touches it.
  BufferId persistent_later(std::string_view name, MemoryKind kind, const std::vector<Bytes>& pieces, Pool pool);
  /// Ends the declarations of persistent memory and places scratch for the templates in `used`; instances
  /// may follow. Reserves space for about `instances` instances, or for as many as the program `like` has.
  void start(const std::vector<TemplateId>& used, std::size_t instances, const Program* like);
  /// Places tensors and adds edges only in finish(), where all lifetimes are known. This needs fewer bytes than placing each
  /// tensor in the bytes that are free at its start. Call before the first tensor and instance. Excludes `mark` and `repeat`.
  void place_late();

  BufferId allocate(std::string_view name, MemoryKind kind, Bytes bytes, Pool pool = Pool::computation);
  /// As allocate(): placed now, but alive only from the first instance that touches it.
  BufferId allocate_later(std::string_view name, MemoryKind kind, Bytes bytes);
  /// Allocates bytes at the end of the arena, alive until `release`: sizes
  /// that an allocator's cache does not have. No slot is bound to them.
  BufferId allocate_apart(std::string_view name, MemoryKind kind, Bytes bytes);
  /// Sets the temporary tensors of the update, which no task touches.
  void pass(PassingTensors tensors) { program_.memory.passing = std::move(tensors); }
  /// Counts bytes that the allocator keeps in its cache after tensors are freed.
  void keep_cached(Bytes bytes) { program_.memory.cached_bytes += bytes; }
  /// Frees a buffer after its last instance was added. Its bytes may be reused.
  void release(BufferId buffer);

  /// Appends an instance; `slots` bind slots 1, 2, ... in order. Returns its index.
  std::uint32_t add(TemplateId tmpl, const InstanceKey& key, std::span<const Binding> slots);
  std::uint32_t add(TemplateId tmpl, const InstanceKey& key, std::initializer_list<Binding> slots) {
    return add(tmpl, key, std::span(slots.begin(), slots.size()));
  }
  /// The next instance's first task waits until `from` has ended, for a receive buffer.
  void credit(Point from) { waits_.push_back({from, EdgeKind::credit}); }
  /// The same wait, because the schedule demands the order.
  void after(Point from) { waits_.push_back({from, EdgeKind::order}); }
  /// The next instance's first task waits for all computation added so far.
  void after_computation();
  /// The next computation added waits until `from` has ended.
  void computation_after(Point from) { computation_waits_.push_back(from); }
  /// Last task of an instance.
  Point end_of(std::uint32_t instance) const;

  // ---- copying of repeated micro-batches: program_repeat.cpp ----

  /// Sizes of the program at some time.
  struct Mark {
    std::size_t instances, bindings, edges, moves;
  };
  /// From now on tensors reuse places of their size (Arena).
  void keep_places() { arena_.keep_places(); }
  /// Returns the current sizes. The first call starts the log that `repeat` needs.
  Mark mark();
  RepeatDetector::Written written() const { return {now(), static_cast<std::int64_t>(program_.memory.allocations.size())}; }
  /// See Arena::searches(); part of what is compared.
  std::int64_t searches() const { return arena_.searches(); }
  /// Shows the detector a buffer that its owner holds.
  void show(RepeatDetector& r, BufferId buffer);
  /// Shows all other state that later instances depend on. `shown`: number of buffers shown before; refuses if there are others.
  void show(RepeatDetector& r, std::size_t shown);
  /// Copies what has been added since `from`, `times` times, each
  /// `micro_batches` later. The state shown at both times must be the same.
  void repeat(const Mark& from, std::int64_t times, std::int32_t micro_batches, const RepeatDetector& state);

  Program finish();

 private:
  struct Buffer {
    std::int64_t offset = 0;
    Bytes bytes;
    Frontier touched, written;   ///< by this owner and, until overwritten, by previous owners of the bytes
    std::size_t allocation = 0;  ///< index into memory.allocations; views share the first piece's
    MemoryKind kind = MemoryKind::workspace;
    bool reused = false;         ///< the frontier still contains tasks of a previous owner
    bool later = false;          ///< not touched yet, and so not alive
    Pool pool = Pool::computation;
  };

  /// An allocation or release of a buffer.
  struct Move {
    bool comes;
    BufferId buffer;
    Bytes bytes;
    std::size_t allocation;
    std::size_t bindings;        ///< number of bindings written before
    bool apart = false;          ///< at the end of the arena, see allocate_apart
  };

  /// An edge into the instance being added.
  struct Pending {
    Point from;
    std::uint16_t to_task;
    Stream to, from_stream;
    EdgeKind kind;
  };

  BufferId unused_buffer();
  void note_move(const Move& move);
  void connect(const SlotUse& use, Buffer& buffer);
  void edge(Point from, std::uint16_t to_task, Stream to, Stream from_stream, EdgeKind kind);
  void note_use(const SlotUse& use, Buffer& buffer);
  void flush_edges();
  void connect(TemplateId id, std::span<const Binding> slots);
  void note_arrivals(std::span<const Binding> slots);
  void note_live(TemplateId id, std::span<const Binding> slots);
  void hold_computation(std::int32_t task);
  void order_scratch(const ScratchUse& use);
  std::size_t record(std::string_view name, MemoryKind kind, std::int64_t offset, Bytes bytes, Pool pool);
  void note_waits(TemplateId id);
  std::vector<Lifetime> lifetimes() const;
  void place_all();
  void replay();
  void replay(const Move& move, LastTouches& touches);
  void bind(std::uint32_t instance);
  void repeat_instances(const Mark& from, const Mark& to, std::int64_t n, std::int32_t micro_batches);
  std::int64_t now() const { return static_cast<std::int64_t>(program_.instances.size()); }

  const TemplateLibrary& library_;
  Program program_;
  std::int64_t current_ = 0;                        ///< instance whose edges are being added
  Arena arena_;
  std::vector<Buffer> buffers_;
  std::vector<BufferId> released_;                  ///< ids that are free
  std::vector<std::pair<Point, EdgeKind>> waits_;   ///< waits of the next instance
  std::vector<Point> computation_waits_;            ///< waits of the next instance with a computation
  std::vector<Pending> pending_;                    ///< edges into the instance being added
  std::array<Frontier, kStreams> known_{};          ///< [stream] already waits for these points of other streams
  LiveCount live_;
  std::vector<LiveCount::Bound> bound_;             ///< bindings of one instance at a time
  std::int64_t scratch_ = 0;
  Frontier scratch_touched_{};
  std::array<bool, kStreams> scratch_open_{};
  std::size_t persistent_ = 0;                      ///< allocations of persistent memory, the first ones in the list
  std::size_t persistent_buffers_ = 0;
  struct Log {
    std::size_t first_binding;
    std::vector<Binding> bound;                     ///< bound buffers, for each binding from there on
    std::vector<Move> moves;
  };
  std::optional<Log> log_;
  /// Input for places and edges under place_late(), besides the log: who waits for what.
  struct Late {
    struct Wait {
      std::uint32_t instance;
      Point from;
      EdgeKind kind;
    };
    std::vector<Wait> waits, computation_waits;     ///< ascending instance
    std::int64_t floor;                             ///< bytes of persistent memory and scratch
  };
  std::optional<Late> late_;
  bool later_ = false;                              ///< some buffers are not alive yet
};

}  // namespace tandem::lowering
