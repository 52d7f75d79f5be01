#include "sim/reserved_memory.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "models/slot_tensors.hpp"
#include "sim/caching_allocator.hpp"

namespace tandem::sim {

namespace {

constexpr std::int64_t kPadding = 4096;  ///< bytes of an allocation that no tensor has: more is a tensor that nobody touches

/// A tensor that comes, at an even time, or goes, at the odd one behind it: at one task what it writes is there before what it
/// reads goes.
struct Event {
  std::int64_t when;
  std::size_t tensor;
  bool comes() const { return when % 2 == 0; }
};

/// Tensors that come and go, in order.
struct Traffic {
  std::vector<Bytes> bytes;
  std::vector<Event> events;

  void add(Bytes of, std::int64_t first, std::int64_t last) {
    events.push_back({2 * first, bytes.size()});
    events.push_back({2 * last + 1, bytes.size()});
    bytes.push_back(of);
  }
  /// By time, those of one time by tensor: that is how they were added. Times are small numbers, so they are counted.
  void sort() {
    std::int64_t last = 0;
    for (const Event& e : events) last = std::max(last, e.when);
    std::vector<std::size_t> place(static_cast<std::size_t>(last) + 2, 0);  // by time: of the next event
    for (const Event& e : events) ++place[static_cast<std::size_t>(e.when) + 1];
    std::partial_sum(place.begin(), place.end(), place.begin());
    std::vector<Event> sorted(events.size());
    for (const Event& e : events) sorted[place[static_cast<std::size_t>(e.when)]++] = e;
    events.swap(sorted);
  }
};

/// A template's tensors: its scratch, which comes and goes with every instance, and those of the other slots.
struct TemplateTensors {
  Traffic scratch;
  std::vector<TensorSpans> slots;

  explicit TemplateTensors(const Template& t) : slots(slot_tensors(t)) {
    for (const ScratchTensor& each : t.scratch) scratch.add(each.bytes, each.first, each.last);
    scratch.sort();
  }
};

/// A step's tensors.
class Step {
 public:
  Step(const TaskGraph& graph, const Program& program) : program_(program), tensors_(program.memory.allocations.size()) {
    for (const Template& t : graph.templates) {
      templates_.emplace_back(t);
      tasks_ = std::max(tasks_, static_cast<std::int64_t>(t.tasks.size()));
    }
    order_allocations();
    for (std::size_t i = 0; i < program.instances.size(); ++i) visit(i);
    for (const std::uint32_t a : transient_) close(a);
    slots_.sort();
    places_.resize(slots_.bytes.size());
  }

  /// What is there for the whole step, in the order in which it was declared.
  void begin(CachingAllocator& allocator) const {
    for (const Bytes b : lasting_) allocator.allocate(b);
  }

  void run(CachingAllocator& allocator) {
    auto next = slots_.events.begin();
    for (std::size_t i = 0; i < program_.instances.size(); ++i) {
      const Traffic& scratch = tensors(i).scratch;
      scratch_places_.resize(scratch.bytes.size());
      for (Event e : scratch.events) {
        e.when += 2 * time(i, 0);
        for (; next != slots_.events.end() && next->when <= e.when; ++next)
          apply(*next, slots_, places_, allocator);
        apply(e, scratch, scratch_places_, allocator);
      }
    }
    for (; next != slots_.events.end(); ++next) apply(*next, slots_, places_, allocator);
  }

 private:
  using Places = std::vector<CachingAllocator::Place>;

  static void apply(const Event& e, const Traffic& of, Places& places, CachingAllocator& allocator) {
    if (e.comes()) places[e.tensor] = allocator.allocate(of.bytes[e.tensor]);
    else allocator.release(places[e.tensor]);
  }

  void order_allocations() {
    const auto& all = program_.memory.allocations;
    const auto end = static_cast<std::uint32_t>(program_.instances.size()) - 1;
    for (std::uint32_t a = 0; a < all.size(); ++a) {
      if (all[a].name == "scratch") continue;
      if (all[a].first == 0 && all[a].last >= end) lasting_.push_back(all[a].bytes);
      else transient_.push_back(a);
    }
    std::stable_sort(transient_.begin(), transient_.end(), [&](auto x, auto y) { return all[x].first < all[y].first; });
    going_ = transient_;
    std::stable_sort(going_.begin(), going_.end(), [&](auto x, auto y) { return all[x].last < all[y].last; });
  }

  const TemplateTensors& tensors(std::size_t instance) const { return templates_[program_.instances[instance].tmpl.index()]; }
  std::int64_t time(std::size_t instance, std::int64_t task) const { return static_cast<std::int64_t>(instance) * tasks_ + task; }

  /// The allocation at an offset of the arena, at the instance that is visited.
  std::optional<std::uint32_t> behind(std::int64_t offset) const {
    auto at = here_.upper_bound(offset);
    if (at == here_.begin()) return std::nullopt;
    const std::uint32_t a = (--at)->second;
    return offset < at->first + program_.memory.allocations[a].bytes.count() ? std::optional(a) : std::nullopt;
  }

  void visit(std::size_t i) {
    const auto& all = program_.memory.allocations;
    for (; gone_ < going_.size() && all[going_[gone_]].last < i; ++gone_) here_.erase(all[going_[gone_]].offset);
    for (; next_ < transient_.size() && all[transient_[next_]].first <= i; ++next_)
      here_[all[transient_[next_]].offset] = transient_[next_];
    const std::vector<TensorSpans>& slots = tensors(i).slots;
    for (std::size_t s = 1; s < slots.size(); ++s) {
      const std::int64_t offset = program_.bindings[program_.instances[i].binding + s];
      const auto a = behind(offset);
      if (!a) continue;
      const std::int64_t base = offset - all[*a].offset;
      for (const TensorSpan& t : slots[s])
        join(tensors_[*a], {base + t.low, base + t.high, time(i, t.first), time(i, t.last)});
    }
  }

  /// A tensor is there where the program has it: inside the first instance of its allocation from the first task that
  /// touches it, inside the last one to the last. What neither touches (a receive's buffer before it is used, what was
  /// sent until the sender knows) is there for all of it.
  void close(std::uint32_t a) {
    const Allocation& allocation = program_.memory.allocations[a];
    const std::int64_t from = time(allocation.first, 0), to = time(allocation.last, tasks_ - 1);
    std::int64_t rest = allocation.bytes.count();
    for (const TensorSpan& t : tensors_[a]) {
      slots_.add(Bytes(t.bytes()), t.first < from + tasks_ ? t.first : from, t.last > to - tasks_ ? t.last : to);
      rest -= t.bytes();
    }
    if (rest > kPadding) slots_.add(Bytes(rest), from, to);
  }

  const Program& program_;
  std::vector<TemplateTensors> templates_;
  std::int64_t tasks_ = 1;                      ///< most of a template
  std::vector<Bytes> lasting_;
  std::vector<std::uint32_t> transient_;        ///< allocations by first instance
  std::vector<std::uint32_t> going_;            ///< the same by last instance
  std::size_t next_ = 0, gone_ = 0;             ///< the first of them that are not here yet, or still are
  std::map<std::int64_t, std::uint32_t> here_;  ///< by offset
  std::vector<TensorSpans> tensors_;            ///< by allocation
  Traffic slots_;
  Places places_, scratch_places_;
};

}  // namespace

Bytes reserved_bytes(const TaskGraph& graph, const Program& program) {
  Step step(graph, program);
  CachingAllocator allocator;
  step.begin(allocator);
  step.run(allocator);
  return allocator.reserved();
}

}  // namespace tandem::sim
