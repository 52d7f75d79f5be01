#include <algorithm>

#include "models/lowering/program/program_builder.hpp"

namespace tandem::lowering {

ProgramBuilder::Mark ProgramBuilder::mark() {
  const Program& p = program_;
  if (!log_) log_ = Log{p.bindings.size(), {}, {}};
  return {p.instances.size(), p.bindings.size(), p.edges.size(), log_->moves.size()};
}

void ProgramBuilder::show(RepeatDetector& r, BufferId id) {
  Buffer& b = buffers_[static_cast<std::size_t>(id)];
  if (static_cast<std::size_t>(id) >= persistent_buffers_) {
    if (b.later) r.refuse();  // its allocation is not complete
    r.tensor(id);
  }
  r.number(b.bytes.count());
  if (r.over()) return;
  r.points(b.touched);
  r.points(b.written);
  r.allocation(b.allocation);
  r.number(static_cast<std::int64_t>(b.kind));
  r.number(static_cast<std::int64_t>(b.pool));
  r.number((b.reused ? 1 : 0) + (b.later ? 2 : 0));
  r.number(program_.memory.allocations[b.allocation].first == now() ? 1 : 0);
}

void ProgramBuilder::show(RepeatDetector& r, std::size_t shown) {
  if (persistent_buffers_ + shown + released_.size() != buffers_.size()) r.refuse();
  for (std::size_t b = 0; b < persistent_buffers_ && !r.over(); ++b) show(r, static_cast<BufferId>(b));
  arena_.show(r);
  live_.show(r);
  r.number(static_cast<std::int64_t>(waits_.size()));
  for (auto& [point, kind] : waits_) {
    r.point(point);
    r.number(static_cast<std::int64_t>(kind));
  }
  r.number(static_cast<std::int64_t>(computation_waits_.size()));
  for (Point& p : computation_waits_) r.point(p);
  for (Frontier& f : known_) r.points(f);
  r.points(scratch_touched_);
  for (const bool open : scratch_open_) r.number(open ? 1 : 0);
}

void ProgramBuilder::repeat_instances(const Mark& from, const Mark& to, std::int64_t n, std::int32_t micro_batches) {
  const auto later = static_cast<std::uint32_t>(n) * static_cast<std::uint32_t>(to.instances - from.instances);
  const auto further = static_cast<std::uint32_t>(n) * static_cast<std::uint32_t>(to.bindings - from.bindings);
  for (std::size_t i = from.instances; i < to.instances; ++i) {
    Instance& again = program_.instances.emplace_back(program_.instances[i]);
    if (again.micro_batch >= 0) again.micro_batch += static_cast<std::int32_t>(n) * micro_batches;
    again.binding += further;
  }
  for (std::size_t e = from.edges; e < to.edges; ++e) {
    Edge& again = program_.edges.emplace_back(program_.edges[e]);
    again.from_instance += later;
    again.to_instance += later;
  }
}

/// Which buffer takes whose place is the same in each period, but the offset is not.
void ProgramBuilder::repeat(const Mark& from, std::int64_t times, std::int32_t micro_batches, const RepeatDetector& state) {
  const Mark to = mark();
  const auto moves = std::span(log_->moves).subspan(from.moves);
  const auto comes = static_cast<std::size_t>(std::count_if(moves.begin(), moves.end(), [](const Move& m) { return m.comes; }));
  const auto instances = static_cast<std::uint32_t>(to.instances - from.instances);
  program_.copied += times * instances;
  std::vector<std::int64_t> offset, before(state.now().size());  // by buffer; of buffers alive between two periods
  for (const Buffer& b : buffers_) offset.push_back(b.offset);
  std::vector<Arena::Places> places = arena_.places();
  std::vector<Allocation>& allocations = program_.memory.allocations;
  for (std::int64_t n = 1; n <= times; ++n) {
    repeat_instances(from, to, n, micro_batches);
    for (std::size_t i = 0; i < before.size(); ++i) before[i] = offset[static_cast<std::size_t>(state.now()[i])];
    for (std::size_t i = 0; i < before.size(); ++i) offset[static_cast<std::size_t>(state.then()[i])] = before[i];
    std::size_t next = from.bindings;
    const auto bind = [&](std::size_t end) {
      for (; next < end; ++next) {
        const Binding& b = log_->bound[next - log_->first_binding];
        const std::int64_t inside = b.offset + n * micro_batches * b.each;
        const bool bound = b.first != kNoBuffer;
        program_.bindings.push_back(bound ? offset[static_cast<std::size_t>(b.first)] + inside : program_.bindings[next]);
      }
    };
    const std::uint32_t later = static_cast<std::uint32_t>(n) * instances;
    for (const Move& m : moves) {
      bind(m.bindings);
      std::int64_t& place = offset[static_cast<std::size_t>(m.buffer)];
      std::vector<std::int64_t>& same = std::find_if(places.begin(), places.end(), [&](const Arena::Places& p) {
                                          return p.bytes == m.bytes.count();
                                        })->offsets;
      if (m.comes) {
        place = same.back();
        same.pop_back();
        Allocation again = allocations[m.allocation];
        again.offset = place;
        again.first += later;
        again.last += later;
        allocations.push_back(again);
      } else {  // a buffer released in a period may have been allocated in the one before
        same.push_back(place);
        allocations[m.allocation + static_cast<std::size_t>(n) * comes].last = allocations[m.allocation].last + later;
      }
    }
    bind(to.bindings);
  }
  for (const BufferId b : state.now()) buffers_[static_cast<std::size_t>(b)].offset = offset[static_cast<std::size_t>(b)];
  arena_.reorder(places);
  log_.reset();
}

}  // namespace tandem::lowering
