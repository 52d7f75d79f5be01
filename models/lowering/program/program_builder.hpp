#pragma once
// Writes one stage's program: instances in issue order, the memory of every tensor, and the edges between instances that
// follow from who reads and writes what on which stream.

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

/// How a template's streams use scratch, which follows from instance to instance without being a tensor.
struct ScratchUse {
  std::array<std::int32_t, kStreams> last{};   ///< task, -1: the stream does not touch it
  /// First touches that no computation of the same instance precedes: what earlier instances do there may still go on.
  std::vector<std::pair<Stream, std::uint16_t>> early;
  std::array<bool, kStreams> open{};           ///< no computation of the instance waits for the stream's last touch
  std::int32_t first_computation = -1;         ///< task
};

/// All templates of a graph, each with its slot uses.
class TemplateLibrary {
 public:
  TemplateId add(Template t);
  const ScratchUse& scratch(TemplateId id) const { return scratch_[id.index()]; }
  const TemplateTensors& tensors(TemplateId id) const { return tensors_[id.index()]; }
  /// Whether a task of the template touches `slot`.
  bool touches(TemplateId id, std::uint16_t slot) const;
  /// The slot of this name. Throws ContractError when the template has none.
  std::uint16_t slot(TemplateId id, std::string_view name) const;
  const Template& operator[](TemplateId id) const { return templates_[id.index()]; }
  const std::vector<SlotUse>& uses(TemplateId id) const { return uses_[id.index()]; }
  std::vector<Template> take() { return std::move(templates_); }

 private:
  std::vector<Template> templates_;
  std::vector<std::vector<SlotUse>> uses_;
  std::vector<ScratchUse> scratch_;
  std::deque<TemplateTensors> tensors_;  ///< that stay where they are
};

/// What a slot is bound to: neighbouring buffers, and where in the first one the slot starts.
struct Binding {
  BufferId first = kNoBuffer;
  std::int32_t count = 1;        ///< neighbours in the arena, consecutive ids
  std::int64_t offset = 0;       ///< bytes
  std::int64_t each = 0;         ///< bytes that `offset` grows by with the micro-batch
};

struct InstanceKey {
  std::int32_t layer = -1, micro_batch = -1, chunk = 0;
  Phase phase = Phase::forward;
};

class ProgramBuilder {
 public:
  ProgramBuilder(const TemplateLibrary& library, StageId stage);

  /// Memory for the whole step; `pieces` (bytes each) are followed apart and lie next to each other in order.
  /// Returns the first piece's id; the others follow consecutively.
  BufferId persistent(std::string_view name, MemoryKind kind, const std::vector<Bytes>& pieces, Pool pool = Pool::computation);
  /// The same, but the plan's framework has nothing like it: the arena has room for it, and it counts as no bytes.
  BufferId persistent_uncounted(std::string_view name, MemoryKind kind, Bytes bytes);
  /// The same in the arena, but a framework makes each piece when it is first written: it counts as alive from the first instance
  /// that touches it.
  BufferId persistent_later(std::string_view name, MemoryKind kind, const std::vector<Bytes>& pieces, Pool pool);
  /// Everything persistent is declared: scratch for the templates that will be used is placed, instances may follow, about
  /// so many, or where there is a program `like` it about as many as that has.
  void start(const std::vector<TemplateId>& used, std::size_t instances, const Program* like);
  /// From here on tensors get their places, and instances their edges, in `finish`, where all lifetimes are known: places in fewer bytes
  /// than those that were free when each came. Only before the first of either; excludes `mark` and `repeat`.
  void place_late();

  BufferId allocate(std::string_view name, MemoryKind kind, Bytes bytes, Pool pool = Pool::computation);
  /// The same with its place from now on, alive from the first instance on that touches it.
  BufferId allocate_later(std::string_view name, MemoryKind kind, Bytes bytes);
  /// Bytes that no tensor before had, counted as alive until `release`: of a size that an allocator's cache does not have. Nothing
  /// is bound to them.
  BufferId allocate_apart(std::string_view name, MemoryKind kind, Bytes bytes);
  /// Tensors of the update that no task has.
  void pass(PassingTensors tensors) { program_.memory.passing = std::move(tensors); }
  /// Tensors that an allocator keeps when they are gone.
  void keep_cached(Bytes bytes) { program_.memory.cached_bytes += bytes; }
  /// The last instance that touches it has been added; its bytes may be handed on.
  void release(BufferId buffer);

  /// Appends an instance; `slots` bind slots 1, 2, ... in order. Returns its index.
  std::uint32_t add(TemplateId tmpl, const InstanceKey& key, std::span<const Binding> slots);
  std::uint32_t add(TemplateId tmpl, const InstanceKey& key, std::initializer_list<Binding> slots) {
    return add(tmpl, key, std::span(slots.begin(), slots.size()));
  }
  /// The next instance added waits at its first task until `from` has ended.
  void credit(Point from) { waits_.push_back({from, EdgeKind::credit}); }
  /// The same without a buffer: the schedule wants it so.
  void after(Point from) { waits_.push_back({from, EdgeKind::order}); }
  /// The same for the end of all computation added so far.
  void after_computation();
  /// The next computation added waits until `from` has ended.
  void computation_after(Point from) { computation_waits_.push_back(from); }
  /// Last task of an instance.
  Point end_of(std::uint32_t instance) const;

  // ---- copying of repeated micro-batches: program_repeat.cpp ----

  /// How far the program is written.
  struct Mark {
    std::size_t instances, bindings, edges, moves;
  };
  /// From here on tensors take the places of those of their size (Arena).
  void keep_places() { arena_.keep_places(); }
  /// From the first one on everything is noted that `repeat` needs.
  Mark mark();
  RepeatDetector::Written written() const { return {now(), static_cast<std::int64_t>(program_.memory.allocations.size())}; }
  /// What only grows, and is part of what is shown.
  std::int64_t searches() const { return arena_.searches(); }
  /// A buffer that somebody else keeps, who shows it.
  void show(RepeatDetector& r, BufferId buffer);
  /// All else that what will be added depends on; `shown`: buffers that were shown before. Refuses when there are others.
  void show(RepeatDetector& r, std::size_t shown);
  /// Writes what has been added since `from` as often again, each time so many micro-batches later, where the state shown at both times is
  /// the same.
  void repeat(const Mark& from, std::int64_t times, std::int32_t micro_batches, const RepeatDetector& state);

  Program finish();

 private:
  struct Buffer {
    std::int64_t offset = 0;
    Bytes bytes;
    Frontier touched, written;   ///< by this owner and, until it is overwritten, by the bytes' previous owners
    std::size_t allocation = 0;  ///< index into memory.allocations; views share the first piece's
    MemoryKind kind = MemoryKind::workspace;
    bool reused = false;         ///< the frontier still holds a previous owner's tasks
    bool later = false;          ///< nothing has touched it yet, and until then it is not alive
    Pool pool = Pool::computation;
  };

  /// A buffer is allocated or released.
  struct Move {
    bool comes;
    BufferId buffer;
    Bytes bytes;
    std::size_t allocation;
    std::size_t bindings;        ///< written before
    bool apart = false;          ///< in bytes that nothing else has
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
  std::int64_t current_ = 0;                        ///< the instance that gets its edges
  Arena arena_;
  std::vector<Buffer> buffers_;
  std::vector<BufferId> released_;                  ///< ids that nobody has
  std::vector<std::pair<Point, EdgeKind>> waits_;   ///< of the next instance
  std::vector<Point> computation_waits_;            ///< of the next instance with a computation
  std::vector<Pending> pending_;                    ///< edges into the instance being added
  std::array<Frontier, kStreams> known_{};          ///< [stream] is already behind these points of the other streams
  LiveCount live_;
  std::vector<LiveCount::Bound> bound_;             ///< of one instance at a time
  std::int64_t scratch_ = 0;
  Frontier scratch_touched_{};
  std::array<bool, kStreams> scratch_open_{};
  std::size_t persistent_ = 0;                      ///< the first allocations, there to the end of the step
  std::size_t persistent_buffers_ = 0;
  struct Log {
    std::size_t first_binding;
    std::vector<Binding> bound;                     ///< what each binding from there on is
    std::vector<Move> moves;
  };
  std::optional<Log> log_;
  /// What places and edges are made of in the end: all of the log, and who waits for what.
  struct Late {
    struct Wait {
      std::uint32_t instance;
      Point from;
      EdgeKind kind;
    };
    std::vector<Wait> waits, computation_waits;     ///< ascending instance
    std::int64_t floor;                             ///< bytes that are there for the whole step
  };
  std::optional<Late> late_;
  bool later_ = false;                              ///< some of them are not alive yet
};

}  // namespace tandem::lowering
