#include "models/lowering/templates/template_builder.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/graph/slot_tensors.hpp"

namespace tandem::lowering {
namespace {

bool any_overlap(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Value& x) {
    return std::any_of(b.begin(), b.end(), [&](const Value& y) { return x.overlaps(y); });
  });
}
bool is_linear(const Op& op) {
  return std::holds_alternative<MatMul>(op) || std::holds_alternative<GroupedMatMul>(op) ||
         std::holds_alternative<GroupedWeightGrad>(op);
}
/// True when some operand of `list` lies in scratch tensor `s`.
bool touches(const std::vector<Value>& list, std::int32_t s) {
  return std::any_of(list.begin(), list.end(), [&](const Value& v) { return v.scratch == s; });
}

/// A template with final tasks: computes their dependencies and the layout of scratch.
class Layout {
 public:
  explicit Layout(DraftTemplate t) : t_(std::move(t)), scratch_(t_.scratch.size()) {
    for (std::size_t i = 0; i < scratch_.size(); ++i) scratch_[i].bytes = t_.scratch[i];
  }

  Template done() {
    for (std::size_t i = 0; i < t_.drafts.size(); ++i) take(i);
    place_scratch();
    order_after_reuse();
    Template t{std::move(t_.name), std::move(t_.slots), {}};
    t.scratch = scratch_tensors();
    for (std::size_t i = 0; i < tasks_.size(); ++i) t.tasks.push_back(finished(i));
    return t;
  }

 private:
  struct Scratch {
    Bytes bytes;
    std::int32_t first = -1, last = -1;  ///< tasks that touch it, in issue order
    std::int64_t offset = 0;
    bool ahead = false;                  ///< freed before task `first` writes its outputs
    bool with(const Scratch& o) const {
      const auto from = [](const Scratch& s) { return 2 * s.first - (s.ahead ? 1 : 0); };
      const auto to = [](const Scratch& s) { return 2 * s.last - (s.ahead ? 1 : 0); };
      return from(o) <= to(*this) && from(*this) <= to(o);
    }
  };

  void take(std::size_t task);
  Task finished(std::size_t task);
  void touch(const Value& v, std::int32_t task);
  void depend(std::size_t task, std::size_t on) {
    if (is_ordered(on, task)) return;
    tasks_[task].deps.push_back(static_cast<std::uint16_t>(on));
    for (std::size_t t = task; t < tasks_.size(); ++t) find_ended(t);
  }
  void find_ended(std::size_t task);
  std::size_t numbered(std::int32_t id) const;
  void order_after_conflicts(std::size_t task);
  void place_scratch();
  void order_after_reuse();
  /// Whether `before` surely ended when `after` starts: same stream, or a chain of dependencies.
  bool is_ordered(std::size_t before, std::size_t after) const { return before == after || ended_[after][before]; }
  Operand operand(const Value& v) const;
  std::vector<ScratchTensor> scratch_tensors() const;

  DraftTemplate t_;
  std::vector<Task> tasks_;       ///< without operands yet
  std::vector<std::vector<bool>> ended_;  ///< by task: which earlier tasks surely ended when it starts
  std::vector<Scratch> scratch_;
};

void Layout::take(std::size_t task) {
  Draft& d = t_.drafts[task];
  for (const Value& v : d.in) touch(v, static_cast<std::int32_t>(task));
  for (const Value& v : d.out) touch(v, static_cast<std::int32_t>(task));
  for (const Value& v : d.held) touch(v, static_cast<std::int32_t>(task));
  for (const Value& v : d.held_ahead) {
    touch(v, static_cast<std::int32_t>(task));
    scratch_[static_cast<std::size_t>(v.scratch)].ahead = true;
  }
  tasks_.push_back({std::move(d.name), d.op, d.dtype, d.stream, {}, {}, {}});
  tasks_.back().repeats_none = d.repeats_none;
  ended_.emplace_back(t_.drafts.size(), false);
  find_ended(task);
  order_after_conflicts(task);
  for (const std::int32_t id : d.after) depend(task, numbered(id));
}

std::size_t Layout::numbered(std::int32_t id) const {
  const auto found = std::find_if(t_.drafts.begin(), t_.drafts.end(), [&](const Draft& d) { return d.id == id; });
  require(found != t_.drafts.end(), "a task waits for one that is not there");
  return static_cast<std::size_t>(found - t_.drafts.begin());
}

Task Layout::finished(std::size_t task) {
  for (const Value& v : t_.drafts[task].in) tasks_[task].inputs.push_back(operand(v));
  for (const Value& v : t_.drafts[task].out) tasks_[task].outputs.push_back(operand(v));
  std::sort(tasks_[task].deps.begin(), tasks_[task].deps.end());
  return std::move(tasks_[task]);
}

void Layout::touch(const Value& v, std::int32_t task) {
  if (v.scratch < 0) {
    Slot& s = t_.slots[v.slot];
    s.bytes = std::max(s.bytes, Bytes(v.end()));
    return;
  }
  Scratch& s = scratch_[static_cast<std::size_t>(v.scratch)];
  if (s.first < 0) s.first = task;
  s.last = task;
}

/// Tasks that surely ended when `task` starts, from those of its dependencies and of the task before it on its stream.
void Layout::find_ended(std::size_t task) {
  std::vector<bool>& ended = ended_[task];
  const auto add = [&](std::size_t earlier) {
    ended[earlier] = true;
    for (std::size_t t = 0; t < earlier; ++t)
      if (ended_[earlier][t]) ended[t] = true;
  };
  for (std::size_t e = task; e-- > 0;)
    if (tasks_[e].stream == tasks_[task].stream) {
      add(e);
      break;
    }
  for (const auto d : tasks_[task].deps)
    if (d < task) add(d);
}

void Layout::order_after_conflicts(std::size_t task) {
  const Draft& now = t_.drafts[task];
  for (std::size_t e = task; e-- > 0;) {
    const Draft& then = t_.drafts[e];
    const bool conflict =
        any_overlap(then.out, now.in) || any_overlap(then.out, now.out) || any_overlap(then.in, now.out);
    if (conflict) depend(task, e);
  }
}

/// First fit by lifetime: tensors alive at the same task never share bytes.
void Layout::place_scratch() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    require(scratch_[i].first >= 0 || scratch_[i].bytes == Bytes(0), "scratch that no task touches");
    if (scratch_[i].first >= 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scratch_[a].first < scratch_[b].first; });
  std::vector<std::size_t> placed;
  for (const auto i : order) {
    Scratch& s = scratch_[i];
    std::sort(placed.begin(), placed.end(), [&](auto a, auto b) { return scratch_[a].offset < scratch_[b].offset; });
    for (const auto p : placed) {
      const Scratch& other = scratch_[p];
      if (s.with(other) && other.offset < s.offset + s.bytes.count() && s.offset < other.offset + other.bytes.count())
        s.offset = other.offset + other.bytes.count();
    }
    t_.slots[0].bytes = std::max(t_.slots[0].bytes, Bytes(s.offset) + s.bytes);
    placed.push_back(i);
  }
}

void Layout::order_after_reuse() {
  for (std::size_t later = 0; later < scratch_.size(); ++later)
    for (std::size_t earlier = 0; earlier < scratch_.size(); ++earlier) {
      const Scratch &a = scratch_[earlier], &b = scratch_[later];
      const bool reused = a.last < b.first && a.offset < b.offset + b.bytes.count() &&
                          b.offset < a.offset + a.bytes.count();
      if (!reused) continue;
      for (std::int32_t t = a.first; t <= a.last; ++t) {
        const Draft& d = t_.drafts[static_cast<std::size_t>(t)];
        const auto s = static_cast<std::int32_t>(earlier);
        if (touches(d.in, s) || touches(d.out, s))
          depend(static_cast<std::size_t>(b.first), static_cast<std::size_t>(t));
      }
    }
}

Operand Layout::operand(const Value& v) const {
  const std::int64_t base = v.scratch < 0 ? 0 : scratch_[static_cast<std::size_t>(v.scratch)].offset;
  return {v.slot, v.dtype, base + v.offset, v.elements, v.stride, v.shards, v.shard_group};
}

/// Parts that tasks write separately are separate tensors. Parts that no task writes live as long as the rest.
std::vector<ScratchTensor> Layout::scratch_tensors() const {
  std::vector<TensorSpans> written(scratch_.size());
  const auto each_scratch = [&](const std::vector<Value>& values, const auto& f) {
    for (const Value& v : values)
      if (v.scratch >= 0 && v.end() > v.offset) f(written[static_cast<std::size_t>(v.scratch)], v);
  };
  for (std::size_t k = 0; k < t_.drafts.size(); ++k) {
    const auto task = static_cast<std::int64_t>(k);
    each_scratch(t_.drafts[k].in, [&](TensorSpans& parts, const Value& v) {
      for (TensorSpan& p : parts)
        if (v.offset < p.high && p.low < v.end()) p.last = task;
    });
    each_scratch(t_.drafts[k].out,
                 [&](TensorSpans& parts, const Value& v) { join(parts, {v.offset, v.end(), task, task}); });
  }
  std::vector<ScratchTensor> tensors;
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    Bytes rest = scratch_[i].first < 0 ? Bytes(0) : scratch_[i].bytes;
    for (const TensorSpan& p : written[i]) {
      tensors.push_back({Bytes(p.bytes()), static_cast<std::int32_t>(p.first), static_cast<std::int32_t>(p.last)});
      rest -= Bytes(p.bytes());
    }
    if (rest >= Bytes(kArenaAlignment)) tensors.push_back({rest, scratch_[i].first, scratch_[i].last, scratch_[i].ahead});
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return tensors;
}

}  // namespace

Value Value::part(std::int64_t first, std::int64_t count) const {
  Value v = *this;
  v.offset += bytes_of(dtype, first).count();
  v.elements = count;
  return v;
}

Value Value::share(Group group, std::int64_t n) const {
  if (n == 1) return *this;
  require(shards == 1 && elements % n == 0, "a tensor is shared out once, in equal parts");
  Value v = *this;
  v.elements = elements / n;
  v.stride = bytes_of(dtype, v.elements).count();
  v.shards = static_cast<std::int32_t>(n);
  v.shard_group = group;
  return v;
}

Value SlotLayout::add(DType dtype, std::int64_t elements) {
  const Value v{slot_, -1, dtype, end_, elements};
  end_ = arena_aligned(end_ + bytes_of(dtype, elements).count());
  return v;
}

TemplateBuilder::TemplateBuilder(std::string name, DType compute, const Fusion& fusion)
    : draft_{std::move(name), compute, {{"scratch", MemoryKind::workspace, Bytes(0)}}, {}, {}}, product_(compute), fusion_(fusion) {}

std::uint16_t TemplateBuilder::slot(std::string name, MemoryKind kind) {
  draft_.slots.push_back({std::move(name), kind, Bytes(0)});
  return static_cast<std::uint16_t>(draft_.slots.size() - 1);
}

std::uint16_t TemplateBuilder::add(std::string name, Op op, std::vector<Value> in, std::vector<Value> out, Stream stream) {
  const auto number = static_cast<std::int32_t>(draft_.drafts.size());
  draft_.drafts.push_back(
      {std::move(name), op, is_linear(op) ? product_ : draft_.compute, stream, std::move(in), std::move(out), number, {}});
  return static_cast<std::uint16_t>(number);
}

void TemplateBuilder::depend(std::uint16_t task, std::uint16_t on) {
  require(on < task, "a task can only wait for an earlier one");
  draft_.drafts[task].after.push_back(on);
}

void TemplateBuilder::hold(std::uint16_t task, DType dtype, std::int64_t elements) {
  draft_.drafts[task].held.push_back(scratch(dtype, elements));
}

void TemplateBuilder::hold_ahead(std::uint16_t task, DType dtype, std::int64_t elements) {
  draft_.drafts[task].held_ahead.push_back(scratch(dtype, elements));
}

void TemplateBuilder::end_without(const Value& unread) {
  const auto idle = [&](const Value& v) { return v.scratch >= 0 || v.slot == unread.slot; };
  std::vector<Draft>& drafts = draft_.drafts;
  while (!drafts.empty() && std::all_of(drafts.back().out.begin(), drafts.back().out.end(), idle)) drafts.pop_back();
  free_unused_scratch();
}

void TemplateBuilder::drop_unread(const Value& unread) {
  std::vector<bool> read(draft_.scratch.size(), false);  // by a task that stays
  std::vector<Value> read_there;  // of the slot, by a task that stays
  const auto needed = [&](const Value& v) {
    if (v.scratch >= 0) return bool(read[static_cast<std::size_t>(v.scratch)]);
    const auto reads = [&](const Value& r) { return r.overlaps(v); };
    return v.slot != unread.slot || std::any_of(read_there.begin(), read_there.end(), reads);
  };
  std::vector<Draft> kept;
  for (std::size_t i = draft_.drafts.size(); i-- > 0;) {
    Draft& d = draft_.drafts[i];
    if (!std::any_of(d.out.begin(), d.out.end(), needed)) {
      for (Draft& later : kept) std::erase(later.after, d.id);
      continue;
    }
    for (const Value& v : d.in) {
      if (v.scratch >= 0) read[static_cast<std::size_t>(v.scratch)] = true;
      else if (v.slot == unread.slot) read_there.push_back(v);
    }
    kept.push_back(std::move(d));
  }
  std::reverse(kept.begin(), kept.end());
  draft_.drafts = std::move(kept);
  free_unused_scratch();
}

void TemplateBuilder::free_unused_scratch() {
  std::vector<bool> used(draft_.scratch.size(), false);
  for (const Draft& d : draft_.drafts)
    for (const auto* values : {&d.in, &d.out, &d.held, &d.held_ahead})
      for (const Value& v : *values)
        if (v.scratch >= 0) used[static_cast<std::size_t>(v.scratch)] = true;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) draft_.scratch[i] = Bytes(0);
}

Template TemplateBuilder::finish() {
  join_tasks(draft_, fusion_);
  split_tasks(draft_, fusion_);
  if (fusion_.tensors_filled) fill_tensors(draft_);
  return Layout(std::move(draft_)).done();
}

}  // namespace tandem::lowering
