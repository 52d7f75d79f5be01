#include "models/lowering/templates/pieces.hpp"

#include <algorithm>

namespace tandem::lowering {
namespace {

bool exchanges_rows(const Task& t) {
  const auto* c = std::get_if<Collective>(&t.op);
  return c != nullptr && c->kind == CollectiveKind::all_to_all && c->group == Group::expert && c->dtype != DType::int32;
}

bool overlap(const Operand& a, const Operand& b) {
  return a.slot == b.slot && a.offset < b.offset + b.span() && b.offset < a.offset + a.span();
}

/// Whether `later` reads what `earlier` writes.
bool reads(const Task& later, const Task& earlier) {
  return std::any_of(later.inputs.begin(), later.inputs.end(), [&](const Operand& in) {
    return std::any_of(earlier.outputs.begin(), earlier.outputs.end(), [&](const Operand& out) { return overlap(in, out); });
  });
}

/// The first task of each piece.
std::vector<std::size_t> beginnings(const Template& t) {
  std::vector<std::size_t> out{0}, exchanged;  // tasks of the piece that exchange rows, or that pass on exchanged ones
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    const Task& task = t.tasks[i];
    const bool brought = std::any_of(exchanged.begin(), exchanged.end(), [&](std::size_t e) { return reads(task, t.tasks[e]); });
    if (task.stream == Stream::compute && brought) {
      out.push_back(i);
      exchanged.clear();
    } else if (brought || exchanges_rows(task)) {
      exchanged.push_back(i);
    }
  }
  return out;
}

/// Tasks [begin, end) with their scratch in slot `held`. Tasks of different pieces are ordered by the memory that both
/// touch. An order without shared memory, such as a matrix gradient after the sum of the input gradient, ends at a cut.
Template piece(const Template& t, std::size_t begin, std::size_t end) {
  const auto at = [&](std::size_t task) { return t.tasks.begin() + static_cast<std::ptrdiff_t>(task); };
  Template out{t.name, t.slots, {at(begin), at(end)}, t.host_waits};
  const auto held = static_cast<std::uint16_t>(out.slots.size());
  out.slots.push_back({"held", MemoryKind::activations, t.slots[0].bytes});
  out.slots[0].bytes = Bytes(0);
  for (Task& task : out.tasks) {
    for (std::vector<Operand>* operands : {&task.inputs, &task.outputs})
      for (Operand& o : *operands)
        if (o.slot == 0) o.slot = held;
    std::erase_if(task.deps, [&](std::uint16_t d) { return d < begin; });
    for (std::uint16_t& d : task.deps) d = static_cast<std::uint16_t>(d - begin);
  }
  return out;
}

}  // namespace

std::vector<Template> pieces_of(const Template& t) {
  const std::vector<std::size_t> first = beginnings(t);
  if (first.size() == 1) return {t};
  std::vector<Template> out;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::size_t end = i + 1 < first.size() ? first[i + 1] : t.tasks.size();
    out.push_back(piece(t, first[i], end));
  }
  return out;
}

}  // namespace tandem::lowering
