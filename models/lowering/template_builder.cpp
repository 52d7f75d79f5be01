#include "models/lowering/template_builder.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace tandem::lowering {
namespace {

std::int64_t end_of(const Value& v) {
  return v.offset + (v.shards - 1) * v.stride + bytes_of(v.dtype, v.elements).count();
}

bool overlap(const Value& a, const Value& b) {
  return a.slot == b.slot && a.scratch == b.scratch && a.offset < end_of(b) && b.offset < end_of(a);
}
bool any_overlap(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Value& x) {
    return std::any_of(b.begin(), b.end(), [&](const Value& y) { return overlap(x, y); });
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

TemplateBuilder::TemplateBuilder(std::string name, DType compute)
    : name_(std::move(name)), compute_(compute), product_(compute) {
  slots_.push_back({"scratch", MemoryKind::workspace, Bytes(0)});
}

std::uint16_t TemplateBuilder::slot(std::string name, MemoryKind kind) {
  slots_.push_back({std::move(name), kind, Bytes(0)});
  return static_cast<std::uint16_t>(slots_.size() - 1);
}

Value TemplateBuilder::scratch(DType dtype, std::int64_t elements) {
  scratch_.push_back({Bytes(arena_aligned(bytes_of(dtype, elements).count()))});
  return {0, static_cast<std::int32_t>(scratch_.size() - 1), dtype, 0, elements};
}

std::uint16_t TemplateBuilder::add(std::string name, Op op, std::vector<Value> in, std::vector<Value> out,
                                   Stream stream) {
  const auto index = static_cast<std::int32_t>(drafts_.size());
  for (const Value& v : in) touch(v, index);
  for (const Value& v : out) touch(v, index);
  Task task{std::move(name), op, is_linear(op) ? product_ : compute_, stream, {}, {}, {}};
  drafts_.push_back({std::move(task), std::move(in), std::move(out)});
  order_after_conflicts(drafts_.size() - 1);
  return static_cast<std::uint16_t>(index);
}

void TemplateBuilder::depend(std::uint16_t task, std::uint16_t on) {
  require(on < task, "a task can only wait for an earlier one");
  if (!is_ordered(on, task)) drafts_[task].task.deps.push_back(on);
}

void TemplateBuilder::touch(const Value& v, std::int32_t task) {
  if (v.scratch < 0) {
    Slot& s = slots_[v.slot];
    s.bytes = std::max(s.bytes, Bytes(end_of(v)));
    return;
  }
  Scratch& s = scratch_[static_cast<std::size_t>(v.scratch)];
  if (s.first < 0) s.first = task;
  s.last = task;
}

/// Whether `before` surely ended when `after` starts: same stream, or a chain of dependencies.
bool TemplateBuilder::is_ordered(std::size_t before, std::size_t after) const {
  std::vector<bool> reached(drafts_.size(), false);
  reached[before] = true;
  for (std::size_t t = before + 1; t <= after; ++t) {
    const Task& task = drafts_[t].task;
    for (std::size_t e = before; e < t && !reached[t]; ++e)
      reached[t] = reached[e] && drafts_[e].task.stream == task.stream;
    for (const auto d : task.deps) reached[t] = reached[t] || reached[d];
  }
  return reached[after];
}

void TemplateBuilder::order_after_conflicts(std::size_t task) {
  const Draft& now = drafts_[task];
  for (std::size_t e = task; e-- > 0;) {
    const Draft& then = drafts_[e];
    const bool conflict =
        any_overlap(then.out, now.in) || any_overlap(then.out, now.out) || any_overlap(then.in, now.out);
    if (conflict) depend(static_cast<std::uint16_t>(task), static_cast<std::uint16_t>(e));
  }
}

/// First fit by lifetime: tensors alive at the same task never share bytes.
void TemplateBuilder::place_scratch() {
  std::vector<std::size_t> order(scratch_.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    require(scratch_[i].first >= 0, "scratch that no task touches");
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scratch_[a].first < scratch_[b].first; });
  std::vector<std::size_t> placed;
  for (const auto i : order) {
    Scratch& s = scratch_[i];
    std::sort(placed.begin(), placed.end(), [&](auto a, auto b) { return scratch_[a].offset < scratch_[b].offset; });
    for (const auto p : placed) {
      const Scratch& other = scratch_[p];
      const bool alive_together = other.first <= s.last && s.first <= other.last;
      if (alive_together && other.offset < s.offset + s.bytes.count() && s.offset < other.offset + other.bytes.count())
        s.offset = other.offset + other.bytes.count();
    }
    slots_[0].bytes = std::max(slots_[0].bytes, Bytes(s.offset) + s.bytes);
    placed.push_back(i);
  }
}

void TemplateBuilder::order_after_reuse() {
  for (std::size_t later = 0; later < scratch_.size(); ++later)
    for (std::size_t earlier = 0; earlier < scratch_.size(); ++earlier) {
      const Scratch &a = scratch_[earlier], &b = scratch_[later];
      const bool reused = a.last < b.first && a.offset < b.offset + b.bytes.count() &&
                          b.offset < a.offset + a.bytes.count();
      if (!reused) continue;
      for (std::int32_t t = a.first; t <= a.last; ++t) {
        const Draft& d = drafts_[static_cast<std::size_t>(t)];
        const auto s = static_cast<std::int32_t>(earlier);
        if (touches(d.in, s) || touches(d.out, s))
          depend(static_cast<std::uint16_t>(b.first), static_cast<std::uint16_t>(t));
      }
    }
}

Operand TemplateBuilder::operand(const Value& v) const {
  const std::int64_t base = v.scratch < 0 ? 0 : scratch_[static_cast<std::size_t>(v.scratch)].offset;
  return {v.slot, v.dtype, base + v.offset, v.elements, v.stride, v.shards, v.shard_group};
}

Bytes TemplateBuilder::live_peak() const {
  Bytes peak;
  for (std::int32_t t = 0; t < static_cast<std::int32_t>(drafts_.size()); ++t) {
    Bytes live;
    for (const Scratch& s : scratch_)
      if (s.first <= t && t <= s.last) live += s.bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

Template TemplateBuilder::finish() {
  place_scratch();
  order_after_reuse();
  Template t{std::move(name_), std::move(slots_), {}, live_peak()};
  for (Draft& d : drafts_) {
    for (const Value& v : d.in) d.task.inputs.push_back(operand(v));
    for (const Value& v : d.out) d.task.outputs.push_back(operand(v));
    std::sort(d.task.deps.begin(), d.task.deps.end());
    t.tasks.push_back(std::move(d.task));
  }
  return t;
}

}  // namespace tandem::lowering
