// Places tensors when the whole program is known, and adds the edges that follow.

#include <algorithm>

#include "models/base/error.hpp"
#include "models/lowering/program/program_builder.hpp"

namespace tandem::lowering {

void ProgramBuilder::place_late() {
  require(!log_, "places are found late in a program that nothing was noted of");
  log_ = Log{program_.bindings.size(), {}, {}};
  late_ = Late{{}, {}, arena_.high_water().count()};
}

/// Notes that the new instance waits. It waits when it gets its edges.
void ProgramBuilder::note_waits(TemplateId id) {
  const auto instance = static_cast<std::uint32_t>(current_);
  for (const auto& [from, kind] : waits_) late_->waits.push_back({instance, from, kind});
  waits_.clear();
  if (library_.scratch(id).first_computation < 0) return;
  for (const Point& from : computation_waits_) late_->computation_waits.push_back({instance, from, EdgeKind::order});
  computation_waits_.clear();
}

/// Lifetimes of tensors that are not persistent, with their current places. A moment is an allocation or release.
std::vector<Lifetime> ProgramBuilder::lifetimes() const {
  std::vector<Lifetime> tensors;
  std::vector<std::size_t> of(buffers_.size());  // index of the last lifetime in each buffer
  const auto end = static_cast<std::int32_t>(log_->moves.size());
  for (std::int32_t moment = 0; moment < end; ++moment) {
    const Move& m = log_->moves[static_cast<std::size_t>(moment)];
    std::size_t& tensor = of[static_cast<std::size_t>(m.buffer)];
    if (!m.comes) {
      tensors[tensor].last = moment;
      continue;
    }
    tensor = tensors.size();
    const std::int64_t place = program_.memory.allocations[m.allocation].offset - late_->floor;
    tensors.push_back({m.bytes.count(), m.apart ? 0 : moment, end, place});
  }
  return tensors;
}

void ProgramBuilder::place_all() {
  std::vector<Lifetime> tensors = lifetimes();
  lay_out(tensors);
  std::int64_t end = late_->floor;
  std::size_t next = 0;
  for (const Move& m : log_->moves) {
    if (!m.comes) continue;
    const std::int64_t place = late_->floor + tensors[next++].offset;
    program_.memory.allocations[m.allocation].offset = place;
    end = std::max(end, place + m.bytes.count());
  }
  program_.memory.arena_bytes = Bytes(end);
  replay();
}

/// Replays the program to derive edges from places.
void ProgramBuilder::replay() {
  LastTouches touches;
  auto move = log_->moves.cbegin();
  auto wait = late_->waits.cbegin(), computation_wait = late_->computation_waits.cbegin();
  const auto instances = static_cast<std::uint32_t>(program_.instances.size());
  for (std::uint32_t i = 0; i < instances; ++i) {
    for (; move != log_->moves.cend() && move->bindings <= program_.instances[i].binding; ++move) replay(*move, touches);
    for (; wait != late_->waits.cend() && wait->instance == i; ++wait) waits_.push_back({wait->from, wait->kind});
    for (; computation_wait != late_->computation_waits.cend() && computation_wait->instance == i; ++computation_wait)
      computation_waits_.push_back(computation_wait->from);
    bind(i);
  }
}

void ProgramBuilder::replay(const Move& move, LastTouches& touches) {
  Buffer& b = buffers_[static_cast<std::size_t>(move.buffer)];
  if (!move.comes) return touches.release({b.offset, b.bytes.count(), b.touched});
  const Allocation& a = program_.memory.allocations[move.allocation];
  b.offset = a.offset;
  b.bytes = move.bytes;
  b.touched = b.written = touches.take(b.offset, b.bytes.count());
  b.reused = true;
}

/// Binds an instance's slots to their places and adds its edges.
void ProgramBuilder::bind(std::uint32_t instance) {
  const Instance& i = program_.instances[instance];
  const std::size_t first = i.binding + 1, count = library_[i.tmpl].slots.size() - 1;
  const auto slots = std::span<const Binding>(log_->bound).subspan(first - log_->first_binding, count);
  for (std::size_t s = 0; s < count; ++s)
    if (const Binding& b = slots[s]; b.first != kNoBuffer)
      program_.bindings[first + s] = buffers_[static_cast<std::size_t>(b.first)].offset + b.offset;
  current_ = instance;
  connect(i.tmpl, slots);
}

}  // namespace tandem::lowering
