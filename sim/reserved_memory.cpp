#include "sim/reserved_memory.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "sim/caching_allocator.hpp"

namespace tandem::sim {

namespace {

constexpr std::int64_t kPadding = 4096;  ///< bytes of an allocation that no tensor has: more is a tensor that nobody touches

/// Bytes [low, high) of a slot or an allocation, from the first to the last task that touches them.
struct Tensor {
  std::int64_t low, high, first, last;
  bool touches(const Tensor& other) const { return low < other.high && other.low < high; }
  bool holds(const Tensor& other) const { return low <= other.low && other.high <= high; }
};

using Tensors = std::vector<Tensor>;

/// Adds bytes that are in use; what overlaps is one tensor (a share of it, a view).
void use(Tensors& tensors, Tensor more) {
  const auto apart = std::partition(tensors.begin(), tensors.end(), [&](const Tensor& t) { return !t.touches(more); });
  for (auto t = apart; t != tensors.end(); ++t) {
    more.low = std::min(more.low, t->low), more.high = std::max(more.high, t->high);
    more.first = std::min(more.first, t->first), more.last = std::max(more.last, t->last);
  }
  tensors.erase(apart, tensors.end());
  tensors.push_back(more);
}

Tensor seen(const Operand& o, std::int64_t task) { return {o.offset, o.offset + o.span(), task, task}; }

/// Tensors inside a template's scratch, where places are used again: what is written anew is another tensor, but for parts and
/// views of what the same task reads or writes.
class Scratch {
 public:
  void read(const Tensor& t) {
    for (const std::size_t a : alive_)
      if (found_[a].touches(t)) found_[a].last = t.last;
  }
  void write(const Tensor& t) {
    for (const std::size_t a : alive_)
      if (found_[a].holds(t) && found_[a].last == t.last) return;
    std::erase_if(alive_, [&](std::size_t a) { return found_[a].touches(t); });
    alive_.push_back(found_.size());
    found_.push_back(t);
  }
  Tensors take() { return std::move(found_); }

 private:
  Tensors found_;
  std::vector<std::size_t> alive_;  ///< of found_, whose places nothing else has yet
};

/// A template's tensors, by slot; times are its tasks.
std::vector<Tensors> tensors_of(const Template& t) {
  std::vector<Tensors> slots(std::max<std::size_t>(1, t.slots.size()));
  Scratch scratch;
  for (std::size_t k = 0; k < t.tasks.size(); ++k) {
    const auto task = static_cast<std::int64_t>(k);
    for (const Operand& o : t.tasks[k].inputs)
      if (o.elements > 0) o.slot == 0 ? scratch.read(seen(o, task)) : use(slots[o.slot], seen(o, task));
    for (const Operand& o : t.tasks[k].outputs)
      if (o.elements > 0) o.slot == 0 ? scratch.write(seen(o, task)) : use(slots[o.slot], seen(o, task));
  }
  slots.front() = scratch.take();
  return slots;
}

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

  void add(const Tensor& t) {
    events.push_back({2 * t.first, bytes.size()});
    events.push_back({2 * t.last + 1, bytes.size()});
    bytes.push_back(Bytes(t.high - t.low));
  }
  void sort() {
    std::sort(events.begin(), events.end(),
              [](const Event& x, const Event& y) { return std::tie(x.when, x.tensor) < std::tie(y.when, y.tensor); });
  }
};

/// A template's tensors: its scratch, which comes and goes with every instance, and those of the other slots.
struct TemplateTensors {
  Traffic scratch;
  std::vector<Tensors> slots;

  explicit TemplateTensors(const Template& t) : slots(tensors_of(t)) {
    for (const Tensor& each : slots.front()) scratch.add(each);
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
    const std::vector<Tensors>& slots = tensors(i).slots;
    for (std::size_t s = 1; s < slots.size(); ++s) {
      const std::int64_t offset = program_.bindings[program_.instances[i].binding + s];
      const auto a = behind(offset);
      if (!a) continue;
      const std::int64_t base = offset - all[*a].offset;
      for (const Tensor& t : slots[s]) use(tensors_[*a], {base + t.low, base + t.high, time(i, t.first), time(i, t.last)});
    }
  }

  void close(std::uint32_t a) {
    const Allocation& allocation = program_.memory.allocations[a];
    std::int64_t rest = allocation.bytes.count();
    for (const Tensor& t : tensors_[a]) {
      slots_.add(t);
      rest -= t.high - t.low;
    }
    if (rest > kPadding) slots_.add({0, rest, time(allocation.first, 0), time(allocation.last, tasks_ - 1)});
  }

  const Program& program_;
  std::vector<TemplateTensors> templates_;
  std::int64_t tasks_ = 1;                      ///< most of a template
  std::vector<Bytes> lasting_;
  std::vector<std::uint32_t> transient_;        ///< allocations by first instance
  std::vector<std::uint32_t> going_;            ///< the same by last instance
  std::size_t next_ = 0, gone_ = 0;             ///< the first of them that are not here yet, or still are
  std::map<std::int64_t, std::uint32_t> here_;  ///< by offset
  std::vector<Tensors> tensors_;                ///< by allocation
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
