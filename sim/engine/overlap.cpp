#include "sim/engine/overlap.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/base/error.hpp"
#include "models/ops/collective_bytes.hpp"
#include "sim/engine/overlap_outline.hpp"

namespace tandem::sim {
namespace {

struct Span {
  std::int64_t from, to;
  double memory = 0;   ///< share of the device's memory bandwidth that is used meanwhile
};

/// Memory accesses of a rank for each element, in a ring of many ranks. Arriving data is written to a buffer and read there. It is
/// then written to the output, or added to the input, which is read (NVIDIA/nccl: src/device/prims_simple.h, all_gather.h,
/// reduce_scatter.h). An all-reduce does both. An all-to-all also reads what it sends (sendrecv.h).
std::int64_t touches(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return 6;
    case CollectiveKind::all_to_all: return 4;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::broadcast:
    case CollectiveKind::shift: return 3;
  }
  throw ContractError("a collective of no kind");
}

/// Spans of a role in order of start, read from front to back.
class Taken {
 public:
  /// Replaces all spans; `spans` receives the old ones.
  void meet(std::vector<Span>& spans) {
    const auto earlier = [](const Span& a, const Span& b) { return a.from < b.from; };
    if (!std::is_sorted(spans.begin(), spans.end(), earlier)) std::sort(spans.begin(), spans.end(), earlier);
    spans_.swap(spans);
    next_ = 0;
  }

  bool over() const { return next_ == spans_.size(); }
  /// Start of the first span that has not been passed; there must be one.
  std::int64_t began() const { return spans_[next_].from; }

  /// Picoseconds of memory time that the spans take within [from, to). Each is rounded, so the sum does not depend on their order.
  /// Calls must have ascending `from`.
  std::int64_t shared(std::int64_t from, std::int64_t to) {
    pass(from);
    std::int64_t sum = 0;
    for (std::size_t s = next_; s < spans_.size() && spans_[s].from < to; ++s) {
      const std::int64_t together = std::min(to, spans_[s].to) - std::max(from, spans_[s].from);
      if (together > 0) sum += std::llround(spans_[s].memory * static_cast<double>(together));
    }
    return sum;
  }
  /// Whether a span overlaps with [from, to).
  bool meets(std::int64_t from, std::int64_t to) {
    pass(from);
    return next_ < spans_.size() && spans_[next_].from < to;
  }

 private:
  void pass(std::int64_t from) {
    while (next_ < spans_.size() && spans_[next_].to <= from) ++next_;
  }

  std::vector<Span> spans_;
  std::size_t next_ = 0;
};

/// Which patterns have collectives that can overlap with a computation: one of the same instance or, if the collective outlasts
/// that, one of a later instance. In other patterns collectives and computations alternate, so they are skipped.
class Overlaps {
 public:
  explicit Overlaps(const SimulatedStep& simulated) : simulated_(simulated), known_(simulated.patterns.size()) {}

  bool of(const OverlapOutline& outline, PatternId id) {
    if (!known_[id]) known_[id] = found(outline, simulated_.patterns[id]);
    return *known_[id];
  }

 private:
  bool found(const OverlapOutline& outline, const Pattern& pattern) {
    const TimedTemplate& timed = simulated_.patterns.of(pattern.timed);
    spans_.clear();
    for (const OverlapOutline::Traffic& c : outline.collectives)
      if (timed.tasks[c.task].duration > 0)
        spans_.push_back({pattern.ended[c.task] - timed.tasks[c.task].duration, pattern.ended[c.task]});
    taken_.meet(spans_);
    for (const std::uint16_t t : outline.computations)
      if (taken_.meets(pattern.ended[t] - timed.tasks[t].duration, pattern.ended[t])) return true;
    return taken_.meets(pattern.free[0], INT64_MAX);
  }

  const SimulatedStep& simulated_;
  std::vector<std::optional<bool>> known_;  ///< by pattern
  std::vector<Span> spans_;                 // scratch
  Taken taken_;                             // scratch
};

/// The instances of a program that have collectives or computations in their outline, ascending.
struct Candidates {
  std::vector<std::uint32_t> collectives, computations;
};

Candidates candidates_of(const LaneProgram& lane_program, const std::vector<OverlapOutline>& outlines) {
  Candidates out;
  for (std::uint32_t i = 0; i < lane_program.instances(); ++i) {
    const OverlapOutline& outline = outlines[lane_program.starts[i].tmpl];
    if (!outline.collectives.empty()) out.collectives.push_back(i);
    if (!outline.computations.empty()) out.computations.push_back(i);
  }
  return out;
}

/// Works out how long each role's computations overlap with its collectives.
class RoleOverlap {
 public:
  RoleOverlap(const SimulatedStep& simulated, const TaskGraph& graph, double slowdown, Bandwidth memory)
      : simulated_(simulated),
        slowdown_(slowdown),
        memory_(memory),
        overlaps_(simulated),
        outlines_(overlap_outlines(graph, lanes_of(simulated.host.synchronous))) {
    for (const LaneProgram& lane_program : simulated.lane_programs) candidates_.push_back(candidates_of(lane_program, outlines_));
  }

  RoleDelays delays(std::size_t role) {
    const Reader reader(simulated_, role);
    const Candidates& candidates = candidates_[simulated_.roles[role].stage.index()];
    communication(role, reader, candidates.collectives);
    taken_.meet(spans_);
    RoleDelays out;
    out.first.assign(simulated_.lane_program(role).instances(), RoleDelays::kNone);
    const std::vector<std::uint32_t>& instances = candidates.computations;
    for (std::size_t next = 0; !taken_.over(); ++next) {
      next = ending_after(taken_.began(), role, reader, instances, next);
      if (next == instances.size()) break;
      delay(role, reader, instances[next], out);
    }
    return out;
  }

 private:
  const OverlapOutline& outline(std::size_t role, std::uint32_t i) const {
    return outlines_[simulated_.lane_program(role).starts[i].tmpl];
  }

  /// Collects in `spans_` the role's collectives that can have overlapped with a computation.
  void communication(std::size_t role, const Reader& reader, const std::vector<std::uint32_t>& instances) {
    spans_.clear();
    for (const std::uint32_t i : instances) {
      const InstanceRecord& p = simulated_.records[role].at(simulated_.times, i);
      const OverlapOutline& outline = this->outline(role, i);
      if (p.has_pattern() && !overlaps_.of(outline, p.pattern)) continue;
      for (const OverlapOutline::Traffic& c : outline.collectives) {
        Span span{reader.started(i, c.task), reader.ended(i, c.task)};
        if (span.to <= span.from) continue;
        span.memory = memory_share(*c.op, span.to - span.from, memory_);
        spans_.push_back(span);
      }
    }
  }

  /// Index of the first of `instances`, from `next` on, whose computations end after `time`; their ends ascend. It is nearly always
  /// close, so strides grow from one.
  std::size_t ending_after(std::int64_t time, std::size_t role, const Reader& reader, const std::vector<std::uint32_t>& instances,
                           std::size_t next) const {
    const auto before = [&](std::uint32_t i) { return reader.ended(i, outline(role, i).computations.back()) <= time; };
    std::size_t stride = 1, end = next;
    for (; end < instances.size() && before(instances[end]); stride *= 2) next = end + 1, end += stride;
    end = std::min(end, instances.size());
    const auto at = [&](std::size_t n) { return instances.begin() + static_cast<std::ptrdiff_t>(n); };
    return static_cast<std::size_t>(std::partition_point(at(next), at(end), before) - instances.begin());
  }

  void delay(std::size_t role, const Reader& reader, std::uint32_t i, RoleDelays& out) {
    const std::vector<std::uint16_t>& computations = outline(role, i).computations;
    if (!taken_.meets(reader.computed(i, computations.front()).first, reader.ended(i, computations.back()))) return;
    for (const std::uint16_t t : computations) {
      const auto [started, ended] = reader.computed(i, t);
      const std::int64_t shared = taken_.shared(started, ended);
      if (shared == 0) continue;
      if (out.first[i] == RoleDelays::kNone) {
        out.first[i] = static_cast<std::uint32_t>(out.ps.size());
        out.ps.resize(out.ps.size() + outline(role, i).tasks, 0);
      }
      out.ps[out.first[i] + t] = std::llround(static_cast<double>(shared) * slowdown_);
    }
  }

  const SimulatedStep& simulated_;
  double slowdown_;
  Bandwidth memory_;
  Overlaps overlaps_;
  std::vector<OverlapOutline> outlines_;  ///< by template
  std::vector<Candidates> candidates_;    ///< by stage
  std::vector<Span> spans_;               // scratch
  Taken taken_;                           // scratch
};

}  // namespace

double memory_share(const Collective& c, std::int64_t ps, Bandwidth memory) {
  const auto bytes = static_cast<double>(touches(c.kind) * payload(c).count());
  return bytes / memory.bytes_per_second() * 1e12 / static_cast<double>(ps);
}

std::vector<RoleDelays> overlap_delays(const SimulatedStep& simulated, const TaskGraph& graph, double slowdown, Bandwidth memory) {
  std::vector<RoleDelays> delays;
  delays.reserve(simulated.roles.size());
  RoleOverlap overlap(simulated, graph, slowdown, memory);
  for (std::size_t role = 0; role < simulated.roles.size(); ++role) delays.push_back(overlap.delays(role));
  if (std::all_of(delays.begin(), delays.end(), [](const RoleDelays& d) { return d.ps.empty(); })) delays.clear();
  return delays;
}

}  // namespace tandem::sim
