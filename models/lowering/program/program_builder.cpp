#include "models/lowering/program/program_builder.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace tandem::lowering {
namespace {

constexpr std::size_t at(Stream s) { return static_cast<std::size_t>(s); }

SlotUse& use_of(std::vector<SlotUse>& uses, std::uint16_t slot, const Task& task, std::uint16_t index) {
  for (SlotUse& u : uses)
    if (u.slot == slot && u.stream == task.stream) return u;
  SlotUse fresh;
  fresh.slot = slot;
  fresh.stream = task.stream;
  fresh.first = index;
  uses.push_back(fresh);
  return uses.back();
}

std::vector<SlotUse> slot_uses(const Template& t) {
  std::vector<SlotUse> uses;
  for (std::uint16_t i = 0; i < t.tasks.size(); ++i) {
    const Task& task = t.tasks[i];
    const auto visit = [&](const Operand& o, bool writes) {
      if (o.slot == 0) return;  // scratch never outlives its instance
      SlotUse& u = use_of(uses, o.slot, task, i);
      u.last = i;
      u.reads = u.reads || !writes;
      u.writes = u.writes || writes;
      if (writes) u.last_write = i;
    };
    for (const Operand& o : task.inputs) visit(o, false);
    for (const Operand& o : task.outputs) visit(o, true);
  }
  return uses;
}

bool touches_scratch(const Task& task) {
  const auto in_scratch = [](const Operand& o) { return o.slot == 0; };
  return std::any_of(task.inputs.begin(), task.inputs.end(), in_scratch) ||
         std::any_of(task.outputs.begin(), task.outputs.end(), in_scratch);
}

/// For every task, whether some computation of the template surely ends before it starts.
std::vector<bool> behind_computation(const Template& t) {
  std::vector<bool> after(t.tasks.size(), false);
  std::array<bool, kStreams> stream{};
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    const Task& task = t.tasks[i];
    after[i] = stream[at(task.stream)];
    for (const auto d : task.deps) after[i] = after[i] || after[d] || t.tasks[d].stream == Stream::compute;
    stream[at(task.stream)] = after[i] || task.stream == Stream::compute;
  }
  return after;
}

/// Whether some computation of the template surely starts after task `k` has ended.
bool awaited(const Template& t, std::size_t k) {
  std::vector<bool> after(t.tasks.size(), false);
  for (std::size_t i = k + 1; i < t.tasks.size(); ++i) {
    const Task& task = t.tasks[i];
    after[i] = task.stream == t.tasks[k].stream;
    for (const auto d : task.deps) after[i] = after[i] || d == k || after[d];
    if (after[i] && task.stream == Stream::compute) return true;
  }
  return false;
}

std::int32_t first_computation(const Template& t) {
  const auto found = std::find_if(t.tasks.begin(), t.tasks.end(), [](const Task& k) { return k.stream == Stream::compute; });
  return found == t.tasks.end() ? -1 : static_cast<std::int32_t>(found - t.tasks.begin());
}

ScratchUse scratch_use(const Template& t) {
  ScratchUse use;
  use.first_computation = first_computation(t);
  use.last.fill(-1);
  const std::vector<bool> after = behind_computation(t);
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    const Task& task = t.tasks[i];
    if (!touches_scratch(task)) continue;
    const bool first = use.last[at(task.stream)] < 0;
    if (first && !after[i] && task.stream != Stream::compute)
      use.early.emplace_back(task.stream, static_cast<std::uint16_t>(i));
    use.last[at(task.stream)] = static_cast<std::int32_t>(i);
  }
  for (std::size_t s = 0; s < kStreams; ++s)
    use.open[s] = s != at(Stream::compute) && use.last[s] >= 0 && !awaited(t, static_cast<std::size_t>(use.last[s]));
  return use;
}

}  // namespace

TemplateId TemplateLibrary::add(Template t) {
  uses_.push_back(slot_uses(t));
  scratch_.push_back(scratch_use(t));
  tensors_.emplace_back(t);
  templates_.push_back(std::move(t));
  return TemplateId(static_cast<std::int32_t>(templates_.size() - 1));
}

bool TemplateLibrary::touches(TemplateId id, std::uint16_t slot) const {
  return std::any_of(uses(id).begin(), uses(id).end(), [&](const SlotUse& u) { return u.slot == slot; });
}

std::uint16_t TemplateLibrary::slot(TemplateId id, std::string_view name) const {
  const auto& slots = (*this)[id].slots;
  const auto found = std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.name == name; });
  require(found != slots.end(), "a template has no slot of this name");
  return static_cast<std::uint16_t>(found - slots.begin());
}

ProgramBuilder::ProgramBuilder(const TemplateLibrary& library, StageId stage) : library_(library) {
  program_.stage = stage;
}

inline std::size_t ProgramBuilder::record(std::string_view name, MemoryKind kind, std::int64_t offset, Bytes bytes, Pool pool) {
  const auto first = static_cast<std::uint32_t>(now());
  program_.memory.allocations.push_back({name, kind, offset, bytes, first, first, pool});
  live_.add(kind, pool, bytes);
  return program_.memory.allocations.size() - 1;
}

BufferId ProgramBuilder::persistent(std::string_view name, MemoryKind kind, const std::vector<Bytes>& pieces, Pool pool) {
  Bytes bytes;
  for (const Bytes p : pieces) bytes += p;
  const Arena::Block block = arena_.allocate(bytes);
  const std::size_t allocation = record(name, kind, block.offset, block.bytes, pool);
  const auto id = static_cast<BufferId>(buffers_.size());
  std::int64_t offset = block.offset;
  for (const Bytes p : pieces) {
    buffers_.push_back({offset, p, {}, {}, allocation, kind});
    offset += p.count();
  }
  return id;
}

BufferId ProgramBuilder::persistent_uncounted(std::string_view name, MemoryKind kind, Bytes bytes) {
  const Arena::Block block = arena_.allocate(bytes);
  buffers_.push_back({block.offset, bytes, {}, {}, record(name, kind, block.offset, Bytes(0), Pool::computation), kind});
  return static_cast<BufferId>(buffers_.size() - 1);
}

BufferId ProgramBuilder::persistent_later(std::string_view name, MemoryKind kind, const std::vector<Bytes>& pieces, Pool pool) {
  Bytes bytes;
  for (const Bytes p : pieces) bytes += p;
  const Arena::Block block = arena_.allocate(bytes);
  const auto id = static_cast<BufferId>(buffers_.size());
  std::int64_t offset = block.offset;
  for (const Bytes p : pieces) {
    program_.memory.allocations.push_back({name, kind, offset, p, 0, 0, pool});
    Buffer& b = buffers_.emplace_back();
    b.offset = offset, b.bytes = p, b.allocation = program_.memory.allocations.size() - 1, b.kind = kind, b.pool = pool,
    b.later = true;
    offset += p.count();
  }
  later_ = later_ || !pieces.empty();
  return id;
}

void ProgramBuilder::start(const std::vector<TemplateId>& used, std::size_t instances, const Program* like) {
  const auto some_more = [](std::size_t n) { return n + n / 8; };
  program_.instances.reserve(like ? some_more(like->instances.size()) : instances);
  program_.bindings.reserve(like ? some_more(like->bindings.size()) : 6 * instances);
  program_.edges.reserve(like ? some_more(like->edges.size()) : instances);
  program_.memory.allocations.reserve(like ? some_more(like->memory.allocations.size()) : 2 * instances);
  Bytes most;
  for (const TemplateId t : used) most = std::max(most, library_[t].slots[0].bytes);
  const Arena::Block block = arena_.allocate(most);
  scratch_ = block.offset;
  // Scratch counts as live only as far as a template really uses it: see note_live.
  program_.memory.allocations.push_back({"scratch", MemoryKind::workspace, block.offset, block.bytes, 0, 0});
  persistent_ = program_.memory.allocations.size();
  persistent_buffers_ = buffers_.size();
}

BufferId ProgramBuilder::allocate(std::string_view name, MemoryKind kind, Bytes bytes, Pool pool) {
  const Arena::Block block = arena_.allocate(bytes);
  const std::size_t allocation = record(name, kind, block.offset, block.bytes, pool);
  const BufferId id = unused_buffer();
  Buffer& b = buffers_[static_cast<std::size_t>(id)];
  b.offset = block.offset;
  b.bytes = block.bytes;
  b.touched = b.written = block.prior;
  b.allocation = allocation;
  b.kind = kind;
  b.reused = true;
  b.pool = pool;
  note_move({true, id, block.bytes, allocation, program_.bindings.size()});
  return id;
}

inline void ProgramBuilder::note_move(const Move& move) {
  if (log_) log_->moves.push_back(move);
}

BufferId ProgramBuilder::allocate_later(std::string_view name, MemoryKind kind, Bytes bytes) {
  const BufferId id = allocate(name, kind, bytes);
  Buffer& b = buffers_[static_cast<std::size_t>(id)];
  live_.remove(id, kind, b.pool, b.bytes);  // until it arrives
  b.later = later_ = true;
  return id;
}

BufferId ProgramBuilder::allocate_apart(std::string_view name, MemoryKind kind, Bytes bytes) {
  const Arena::Block block = arena_.append(bytes);
  const std::size_t allocation = record(name, kind, block.offset, block.bytes, Pool::computation);
  const BufferId id = unused_buffer();
  buffers_[static_cast<std::size_t>(id)] = {block.offset, block.bytes, {}, {}, allocation, kind, true};
  if (late_) note_move({true, id, block.bytes, allocation, program_.bindings.size(), true});
  return id;
}

/// Reuses a released id if there is one, so that the ids in use stay close together.
inline BufferId ProgramBuilder::unused_buffer() {
  if (released_.empty()) {
    buffers_.emplace_back();
    return static_cast<BufferId>(buffers_.size() - 1);
  }
  const BufferId id = released_.back();
  released_.pop_back();
  return id;
}

void ProgramBuilder::release(BufferId id) {
  const Buffer& b = buffers_[static_cast<std::size_t>(id)];
  program_.memory.allocations[b.allocation].last = static_cast<std::uint32_t>(program_.instances.size() - 1);
  note_move({false, id, b.bytes, b.allocation, program_.bindings.size()});
  live_.remove(id, b.kind, b.pool, b.bytes);
  arena_.release(b.offset, b.bytes, b.touched);
  released_.push_back(id);
}

/// A write waits for all tasks that touched the bytes; a read waits for the writers.
inline void ProgramBuilder::connect(const SlotUse& use, Buffer& buffer) {
  const Frontier& wait_for = use.writes ? buffer.touched : buffer.written;
  const EdgeKind kind = buffer.reused ? EdgeKind::reuse : EdgeKind::data;
  const auto& known = known_[at(use.stream)];
  for (std::size_t s = 0; s < kStreams; ++s)
    if (wait_for[s] > known[s] && s != at(use.stream)) edge(wait_for[s], use.first, use.stream, static_cast<Stream>(s), kind);
}

inline void ProgramBuilder::edge(Point from, std::uint16_t to_task, Stream to, Stream from_stream, EdgeKind kind) {
  // Within one instance the template's own dependencies order the streams.
  if (from.instance() < 0 || from.instance() == current_) return;
  if (from <= known_[at(to)][at(from_stream)]) return;
  pending_.push_back({from, to_task, to, from_stream, kind});
}

inline void ProgramBuilder::note_use(const SlotUse& use, Buffer& buffer) {
  // Two slots may share a buffer, and the one noted later may end earlier.
  Point& touched = buffer.touched[at(use.stream)];
  touched = std::max(touched, Point{current_, use.last});
  if (!use.writes) return;
  // This computation waited for earlier instances' touches, so whoever waits for it waits for them.
  for (std::size_t s = 0; s < kStreams; ++s) {
    if (buffer.touched[s].instance() < current_) buffer.touched[s] = {};
    if (buffer.written[s].instance() < current_) buffer.written[s] = {};
  }
  Point& written = buffer.written[at(use.stream)];
  written = std::max(written, Point{current_, use.last_write});
  buffer.reused = false;
}

/// Sorts and thins the edges into the instance just described, and remembers what its streams now know.
inline void ProgramBuilder::flush_edges() {
  const auto earlier = [](const Pending& a, const Pending& b) { return a.to_task < b.to_task; };
  for (auto e = pending_.begin(); e != pending_.end(); ++e)  // by insertion: they are a handful
    std::rotate(std::upper_bound(pending_.begin(), e, *e, earlier), e, e + 1);
  const auto instance = static_cast<std::uint32_t>(current_);
  for (const Pending& e : pending_) {
    Point& known = known_[at(e.to)][at(e.from_stream)];
    if (e.from <= known) continue;
    // A later edge of the same pair into the same task makes this one redundant.
    const bool superseded = std::any_of(pending_.begin(), pending_.end(), [&](const Pending& o) {
      return o.to_task == e.to_task && o.from_stream == e.from_stream && o.from > e.from;
    });
    if (superseded) continue;
    known = e.from;
    program_.edges.push_back({static_cast<std::uint32_t>(e.from.instance()), instance, e.from.task(), e.to_task, e.kind});
  }
  pending_.clear();
}

std::uint32_t ProgramBuilder::add(TemplateId id, const InstanceKey& key, std::span<const Binding> slots) {
  require(slots.size() + 1 == library_[id].slots.size(), "an instance must bind every slot of its template");
  current_ = now();
  late_ ? note_waits(id) : connect(id, slots);
  const auto binding = static_cast<std::uint32_t>(program_.bindings.size());
  program_.bindings.push_back(scratch_);
  for (const Binding& b : slots)
    program_.bindings.push_back(b.first == kNoBuffer ? 0 : buffers_[static_cast<std::size_t>(b.first)].offset + b.offset);
  if (log_) {
    log_->bound.emplace_back();  // scratch
    log_->bound.insert(log_->bound.end(), slots.begin(), slots.end());
  }
  program_.instances.push_back({id, key.layer, key.micro_batch, key.chunk, key.phase, binding});
  if (later_) note_arrivals(slots);
  note_live(id, slots);
  return static_cast<std::uint32_t>(program_.instances.size() - 1);
}

/// Writes the edges into the current instance.
void ProgramBuilder::connect(TemplateId id, std::span<const Binding> slots) {
  for (const auto& [p, kind] : waits_) {
    const Instance& source = program_.instances[static_cast<std::size_t>(p.instance())];
    edge(p, 0, library_[id].tasks.front().stream, library_[source.tmpl].tasks[p.task()].stream, kind);
  }
  waits_.clear();
  hold_computation(library_.scratch(id).first_computation);
  order_scratch(library_.scratch(id));
  for (const SlotUse& use : library_.uses(id)) {
    const Binding& b = slots[use.slot - 1U];
    for (std::int32_t i = 0; i < b.count; ++i) connect(use, buffers_[static_cast<std::size_t>(b.first + i)]);
  }
  for (const SlotUse& use : library_.uses(id)) {
    const Binding& b = slots[use.slot - 1U];
    for (std::int32_t i = 0; i < b.count; ++i) note_use(use, buffers_[static_cast<std::size_t>(b.first + i)]);
  }
  flush_edges();
}

/// `task`: the first computation of the instance that is added; -1: it has none.
inline void ProgramBuilder::hold_computation(std::int32_t task) {
  if (task < 0) return;
  for (const Point& p : computation_waits_) {
    const Instance& source = program_.instances[static_cast<std::size_t>(p.instance())];
    edge(p, static_cast<std::uint16_t>(task), Stream::compute, library_[source.tmpl].tasks[p.task()].stream, EdgeKind::order);
  }
  computation_waits_.clear();
}

inline void ProgramBuilder::order_scratch(const ScratchUse& use) {
  for (const auto& [stream, task] : use.early)
    for (std::size_t s = 0; s < kStreams; ++s)
      if (s != at(stream)) edge(scratch_touched_[s], task, stream, static_cast<Stream>(s), EdgeKind::reuse);
  for (std::size_t s = 0; s < kStreams; ++s) {
    if (scratch_open_[s] && use.first_computation >= 0)
      edge(scratch_touched_[s], static_cast<std::uint16_t>(use.first_computation), Stream::compute, static_cast<Stream>(s),
           EdgeKind::reuse);
    if (use.last[s] < 0) continue;
    scratch_touched_[s] = {current_, static_cast<std::uint16_t>(use.last[s])};
    scratch_open_[s] = use.open[s];
  }
}

/// Marks buffers that the new instance is the first to touch as alive.
void ProgramBuilder::note_arrivals(std::span<const Binding> slots) {
  for (const Binding& b : slots)
    for (std::int32_t i = 0; i < b.count && b.first != kNoBuffer; ++i) {
      Buffer& buffer = buffers_[static_cast<std::size_t>(b.first + i)];
      if (!buffer.later) continue;
      buffer.later = false;
      program_.memory.allocations[buffer.allocation].first = static_cast<std::uint32_t>(now() - 1);
      live_.add(buffer.kind, buffer.pool, buffer.bytes);
    }
}

inline void ProgramBuilder::note_live(TemplateId id, std::span<const Binding> slots) {
  if (!live_.next(library_.tensors(id))) return;
  const Template& t = library_[id];
  const auto here = static_cast<std::uint32_t>(now() - 1);
  bound_.clear();
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const Binding& b = slots[s];
    LiveCount::Bound& to = bound_.emplace_back();
    if (b.first == kNoBuffer || b.count > 1) continue;
    const Buffer& buffer = buffers_[static_cast<std::size_t>(b.first)];
    const bool comes = program_.memory.allocations[buffer.allocation].first == here;
    if (buffer.allocation < persistent_ && (!comes || here == 0)) continue;
    to = {b.first, buffer.kind, buffer.pool, b.offset, t.slots[s + 1].bytes, comes};
  }
  live_.instance(id, library_.tensors(id), bound_);
}

void ProgramBuilder::after_computation() {
  for (std::size_t i = program_.instances.size(); i-- > 0;) {
    const auto& tasks = library_[program_.instances[i].tmpl].tasks;
    const auto last = std::find_if(tasks.rbegin(), tasks.rend(), [](const Task& t) { return t.stream == Stream::compute; });
    if (last == tasks.rend()) continue;
    return after({static_cast<std::int64_t>(i), static_cast<std::uint16_t>(tasks.rend() - last - 1)});
  }
}

Point ProgramBuilder::end_of(std::uint32_t instance) const {
  const Template& t = library_[program_.instances[instance].tmpl];
  return {instance, static_cast<std::uint16_t>(t.tasks.size() - 1)};
}

Program ProgramBuilder::finish() {
  live_.settle();
  if (late_) place_all();
  program_.memory.live_peak_bytes = live_.peak();
  program_.memory.live_at_peak = live_.at_peak();
  program_.memory.pooled_bytes = live_.apart_in_pools();
  keep_cached(program_.memory.pooled_bytes);
  const auto end = static_cast<std::uint32_t>(program_.instances.size() - 1);
  for (std::size_t i = 0; i < persistent_; ++i) program_.memory.allocations[i].last = end;
  if (!late_) program_.memory.arena_bytes = arena_.high_water();
  return std::move(program_);
}

}  // namespace tandem::lowering
