#include "sim/memory/reserved_memory.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "models/base/error.hpp"
#include "models/graph/slot_tensors.hpp"
#include "sim/memory/caching_allocator.hpp"
#include "sim/memory/short_program.hpp"

namespace tandem::sim {

namespace {

constexpr std::int64_t kPadding = 4096;  ///< bytes of an allocation outside its tensors; more is a tensor that no task touches

constexpr std::int64_t kPrecision = 2 << 20;  ///< bytes; of the search in needed_bytes()

/// Times of a task. 0 and 1: scratch ahead of its outputs is allocated and freed; 2: outputs are allocated; 3: inputs are freed.
constexpr std::int64_t kTimes = 4;

/// A tensor is allocated (at an even time) or freed (at an odd time).
struct Event {
  std::int64_t when;
  std::size_t tensor;
  bool comes() const { return when % 2 == 0; }
};

/// Tensors with their allocations and releases, in order.
struct Traffic {
  std::vector<Bytes> bytes;
  std::vector<Pool> pools;
  std::vector<Event> events;

  void add(Bytes of, Pool pool, std::int64_t first, std::int64_t last) {
    add_at(of, pool, kTimes * first + 2, kTimes * last + 3);
  }
  void add(const ScratchTensor& s) {
    if (s.ahead) add_at(s.bytes, Pool::computation, kTimes * s.first, kTimes * s.first + 1);
    else add(s.bytes, Pool::computation, s.first, s.last);
  }
  /// Sorts events by time; those of one time keep their order. Times are small numbers, so it counts them.
  void sort() {
    std::int64_t last = 0;
    for (const Event& e : events) last = std::max(last, e.when);
    std::vector<std::size_t> place(static_cast<std::size_t>(last) + 2, 0);  // by time: place of its next event
    for (const Event& e : events) ++place[static_cast<std::size_t>(e.when) + 1];
    std::partial_sum(place.begin(), place.end(), place.begin());
    std::vector<Event> sorted(events.size());
    for (const Event& e : events) sorted[place[static_cast<std::size_t>(e.when)]++] = e;
    events.swap(sorted);
  }

 private:
  void add_at(Bytes of, Pool pool, std::int64_t comes, std::int64_t goes) {
    events.push_back({comes, bytes.size()});
    events.push_back({goes, bytes.size()});
    bytes.push_back(of);
    pools.push_back(pool);
  }
};

/// One caching allocator for each stream.
class Allocators {
 public:
  explicit Allocators(bool expandable) {
    for (std::size_t p = 0; p < kPools; ++p) each_.emplace_back(expandable);
  }
  /// Limits all allocators together to `room` bytes.
  void limit(Bytes room) { room_ = room; }
  bool limited() const { return room_.has_value(); }
  CachingAllocator::Place allocate(Pool p, Bytes bytes) {
    CachingAllocator& one = of(p);
    if (room_ && !enough(one.growth(bytes))) {
      for (CachingAllocator& a : each_) a.give_back();
      short_ = short_ || !enough(one.growth(bytes));
    }
    return one.allocate(bytes);
  }
  void release(Pool p, CachingAllocator::Place place) { of(p).release(place); }
  /// Whether some allocation exceeded the limit; it got its memory all the same.
  bool ran_short() const { return short_; }
  Bytes reserved() const {
    Bytes sum;
    for (const CachingAllocator& a : each_) sum += a.reserved();
    return sum;
  }

 private:
  CachingAllocator& of(Pool p) { return each_[static_cast<std::size_t>(p)]; }
  bool enough(Bytes growth) const { return growth == Bytes() || reserved() + growth <= *room_; }

  std::optional<Bytes> room_;
  bool short_ = false;
  std::deque<CachingAllocator> each_;  ///< a deque does not move them
};

/// A template's tensors: its scratch, which every instance allocates and frees, and those of the other slots.
struct TemplateTensors {
  Traffic scratch;
  std::vector<TensorSpans> slots;

  explicit TemplateTensors(const Template& t) : slots(slot_tensors(t)) {
    for (const ScratchTensor& each : t.scratch) scratch.add(each);
    scratch.sort();
  }
};

/// A step's tensors, and their allocation on allocators.
class AllocatedStep {
 public:
  AllocatedStep(const TaskGraph& graph, const Program& program) : program_(program), tensors_(program_.allocations().size()) {
    for (const Template& t : graph.templates) {
      templates_.emplace_back(t);
      tasks_ = std::max(tasks_, static_cast<std::int64_t>(t.tasks.size()));
    }
    order_allocations();
    for (const Allocation& a : program_.allocations()) offsets_.push_back(a.offset);
    for (std::size_t i = 0; i < program_.size(); ++i) visit(i);
    for (const std::uint32_t a : transient_) close(a);
    slots_.sort();
    places_.resize(slots_.bytes.size());
    there_.resize(slots_.bytes.size());
  }

  /// Allocates the tensors that live for the whole step, in order of declaration.
  void begin(Allocators& allocators) const {
    for (const std::uint32_t a : lasting_) {
      const Allocation& one = program_.allocations()[a];
      allocators.allocate(one.pool, one.bytes);
    }
    begin_parameters(allocators);
  }

  /// Runs the step; stops after an instance in which an allocation failed.
  void run(Allocators& allocators) {
    std::fill(there_.begin(), there_.end(), false);
    auto next = slots_.events.cbegin();
    const auto pass = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to && !allocators.ran_short(); ++i) run_instance(i, next, allocators);
      for (; next != slots_.events.end() && next->when < kTimes * time(to, 0); ++next) apply_slot(*next, allocators);
    };
    if (!program_.whole()) {
      pass(0, program_.period_before());
      const auto period = next;
      const std::vector<std::size_t> before = there();
      pass(program_.period_before(), program_.cut());
      const std::vector<std::size_t> now = there();
      require(before.size() == now.size(), "what repeats does not leave as many tensors as it found");
      for (std::size_t n = 0; n < program_.periods_left_out(); ++n) {
        rename(now, before);
        next = period;
        pass(program_.period_before(), program_.cut());
      }
    }
    pass(program_.whole() ? 0 : program_.cut(), program_.size());
    if (allocators.ran_short()) return;
    const std::int64_t end = kTimes * gradients_end();
    for (; next != slots_.events.end() && next->when < end; ++next) apply_slot(*next, allocators);
    const auto let_go = [&] {
      for (; next != slots_.events.end(); ++next) apply_slot(*next, allocators);
    };
    update(allocators, let_go);
  }

 private:
  using Places = std::vector<CachingAllocator::Place>;

  void run_instance(std::size_t i, std::vector<Event>::const_iterator& next, Allocators& allocators) {
    const Traffic& scratch = tensors(i).scratch;
    scratch_places_.resize(scratch.bytes.size());
    for (Event e : scratch.events) {
      e.when += kTimes * time(i, 0);
      for (; next != slots_.events.end() && next->when <= e.when; ++next) apply_slot(*next, allocators);
      apply(e, scratch, scratch_places_, allocators);
    }
  }

  void apply_slot(const Event& e, Allocators& allocators) {
    there_[e.tensor] = e.comes();
    apply(e, slots_, places_, allocators);
  }

  /// The slots' tensors that are allocated now, in order of declaration.
  std::vector<std::size_t> there() const {
    std::vector<std::size_t> out;
    for (std::size_t t = 0; t < there_.size(); ++t)
      if (there_[t]) out.push_back(t);
    return out;
  }

  /// Gives the allocated tensors the indices of those that were allocated a period before, so that the same events apply to them.
  void rename(const std::vector<std::size_t>& now, const std::vector<std::size_t>& before) {
    renamed_.clear();
    for (const std::size_t t : now) renamed_.push_back(places_[t]), there_[t] = false;
    for (std::size_t k = 0; k < before.size(); ++k) places_[before[k]] = renamed_[k], there_[before[k]] = true;
  }

  /// Allocates and frees one tensor for each parameter, as large as its gradient: parameters had their own before they became one
  /// (deepspeed/runtime/zero/stage2.py, branch big-science of 2021, __init__: move_to_cpu and flatten; later versions empty the
  /// cache between the two).
  void begin_parameters(Allocators& allocators) const {
    Places places;
    for (const Bytes each : gradients_) places.push_back(allocators.allocate(Pool::computation, each));
    for (const CachingAllocator::Place& p : places) allocators.release(Pool::computation, p);
  }

  static void apply(const Event& e, const Traffic& of, Places& places, Allocators& allocators) {
    const Pool pool = of.pools[e.tensor];
    if (e.comes()) places[e.tensor] = allocators.allocate(pool, of.bytes[e.tensor]);
    else allocators.release(pool, places[e.tensor]);
  }

  /// Allocates and frees the update's tensors; `let_go` frees the passes' gradients. An allocator that runs short waits for the
  /// device first (synchronize_and_free_events of release_cached_blocks), so with a limit, tensors that only a stream keeps are
  /// freed at once.
  void update(Allocators& allocators, const auto& let_go) const {
    Traffic passing;
    const std::vector<PassingTensor>& tensors = program_.passing().tensors;
    for (const PassingTensor& t : tensors) passing.add(t.bytes, Pool::computation, t.comes, t.goes);
    passing.sort();
    Places places(passing.bytes.size());
    for (const Event& e : passing.events) {
      if (e.when >= kTimes * program_.passing().gradients_go) let_go();
      const bool goes_at_once = tensors[e.tensor].let_go && allocators.limited();
      if (goes_at_once && !e.comes()) continue;
      apply(e, passing, places, allocators);
      if (goes_at_once) allocators.release(Pool::computation, places[e.tensor]);
    }
  }

  /// Whether an allocation holds gradients that the framework frees every step. The first backward pass makes them
  /// (stage_1_and_2.py, independent_gradient_partition_epilogue ends with zero_grad, which sets them to none).
  bool passes(const Allocation& a) const { return !program_.passing().tensors.empty() && a.kind == MemoryKind::gradients; }

  /// Whether an instance touches gradients one by one: reductions and the update touch those of many parameters as one.
  static bool makes_gradients(const Instance& i) {
    return i.phase != Phase::reduce && i.phase != Phase::optimizer && i.phase != Phase::gather;
  }

  void order_allocations() {
    const auto& all = program_.allocations();
    const auto end = static_cast<std::uint32_t>(program_.size()) - 1;
    for (std::uint32_t a = 0; a < all.size(); ++a) {
      if (all[a].name == "scratch") continue;
      if (all[a].first == 0 && all[a].last >= end && !passes(all[a])) lasting_.push_back(a);
      else transient_.push_back(a);
    }
    std::stable_sort(transient_.begin(), transient_.end(), [&](auto x, auto y) { return all[x].first < all[y].first; });
    going_ = transient_;
    std::stable_sort(going_.begin(), going_.end(), [&](auto x, auto y) { return all[x].last < all[y].last; });
  }

  const TemplateTensors& tensors(std::size_t instance) const { return templates_[program_.instance(instance).tmpl.index()]; }
  std::int64_t time(std::size_t instance, std::int64_t task) const { return static_cast<std::int64_t>(instance) * tasks_ + task; }

  /// The allocation at an offset of the arena, at the instance that is visited.
  std::optional<std::uint32_t> behind(std::int64_t offset) const {
    auto at = here_.upper_bound(offset);
    if (at == here_.begin()) return std::nullopt;
    const std::uint32_t a = (--at)->second;
    return offset < at->first + program_.allocations()[a].bytes.count() ? std::optional(a) : std::nullopt;
  }

  /// Moves the allocations that live across the cut to their offsets behind it.
  void move() {
    for (const ShortProgram::Moved& m : program_.moved()) here_.erase(offsets_[m.allocation]);
    for (const ShortProgram::Moved& m : program_.moved())
      here_[offsets_[m.allocation] = m.offset] = static_cast<std::uint32_t>(m.allocation);
  }

  void visit(std::size_t i) {
    const auto& all = program_.allocations();
    for (; gone_ < going_.size() && all[going_[gone_]].last < i; ++gone_) here_.erase(offsets_[going_[gone_]]);
    if (i == program_.cut()) move();
    for (; next_ < transient_.size() && all[transient_[next_]].first <= i; ++next_)
      here_[all[transient_[next_]].offset] = transient_[next_];
    const std::vector<TensorSpans>& slots = tensors(i).slots;
    for (std::size_t s = 1; s < slots.size(); ++s) {
      const std::int64_t offset = program_.binding(i, s);
      const auto a = behind(offset);
      if (!a || (passes(all[*a]) && !makes_gradients(program_.instance(i)))) continue;
      const std::int64_t base = offset - offsets_[*a], end = all[*a].bytes.count();
      for (const TensorSpan& t : slots[s])  // a slot may reach into the next allocations, which last as long (gradients of units)
        if (base + t.low < end)
          join(tensors_[*a], {base + t.low, std::min(base + t.high, end), time(i, t.first), time(i, t.last)});
    }
  }

  /// Adds the tensors of an allocation. A tensor lives from the first task that touches it in the allocation's first instance to
  /// the last one in its last instance. If such an instance does not touch it (a receive's buffer before it is used, a sent tensor
  /// until the sender knows), it lives through the whole instance.
  void close(std::uint32_t a) {
    const Allocation& allocation = program_.allocations()[a];
    const std::int64_t from = time(allocation.first, 0), to = time(allocation.last, tasks_ - 1);
    if (passes(allocation)) return close_gradients(a);
    std::int64_t rest = allocation.bytes.count();
    for (const TensorSpan& t : tensors_[a]) {
      slots_.add(Bytes(t.bytes()), allocation.pool, t.first < from + tasks_ ? t.first : from, t.last > to - tasks_ ? t.last : to);
      rest -= t.bytes();
    }
    if (rest > kPadding) slots_.add(Bytes(rest), allocation.pool, from, to);
  }

  /// The time behind all tasks, when only gradients are freed.
  std::int64_t gradients_end() const { return time(program_.size(), 0); }

  void close_gradients(std::uint32_t a) {
    for (const TensorSpan& t : tensors_[a]) {
      slots_.add(Bytes(t.bytes()), program_.allocations()[a].pool, t.first, gradients_end());
      gradients_.push_back(Bytes(t.bytes()));
    }
  }

  const ShortProgram program_;
  std::vector<TemplateTensors> templates_;
  std::int64_t tasks_ = 1;                      ///< most tasks of a template
  std::vector<std::uint32_t> lasting_;          ///< allocations
  std::vector<std::uint32_t> transient_;        ///< allocations by first instance
  std::vector<std::uint32_t> going_;            ///< allocations by last instance
  std::size_t next_ = 0, gone_ = 0;             ///< first of transient_ not in here_ yet; first of going_ still in it
  std::map<std::int64_t, std::uint32_t> here_;  ///< allocations at the visited instance, by offset
  std::vector<std::int64_t> offsets_;           ///< by allocation: where it lies at the instance that is visited
  std::vector<TensorSpans> tensors_;            ///< by allocation
  std::vector<Bytes> gradients_;                ///< bytes of each parameter's gradient, if the framework frees them
  Traffic slots_;
  Places places_, scratch_places_, renamed_;
  std::vector<bool> there_;                     ///< by tensor of slots_
};

}  // namespace

Bytes reserved_bytes(const TaskGraph& graph, const Program& program) {
  AllocatedStep step(graph, program);
  Allocators allocators(program.memory.expandable_segments);
  step.begin(allocators);
  step.run(allocators);
  return std::max(allocators.reserved(), program.memory.live_peak_bytes);  // freed gradients may make it less
}

namespace {

bool runs_in(AllocatedStep& step, Bytes room) {
  Allocators allocators(false);
  allocators.limit(room);
  step.begin(allocators);
  step.run(allocators);
  return !allocators.ran_short();
}

}  // namespace

bool runs_in(const TaskGraph& graph, const Program& program, Bytes room) {
  const MemoryPlan& memory = program.memory;
  if (memory.live_peak_bytes > room || memory.expandable_segments) return memory.live_peak_bytes <= room;
  AllocatedStep step(graph, program);
  return runs_in(step, room);
}

Bytes needed_bytes(const TaskGraph& graph, const Program& program, Bytes room) {
  const MemoryPlan& memory = program.memory;
  if (memory.live_peak_bytes > room || memory.expandable_segments) return memory.live_peak_bytes;
  AllocatedStep step(graph, program);
  if (runs_in(step, room)) return memory.live_peak_bytes;
  std::int64_t fails = room.count(), runs = reserved_bytes(graph, program).count();
  while (runs - fails > kPrecision) {
    const std::int64_t middle = fails + (runs - fails) / 2;
    (runs_in(step, Bytes(middle)) ? runs : fails) = middle;
  }
  return Bytes(runs);
}

}  // namespace tandem::sim
