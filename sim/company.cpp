#include "sim/company.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/base/error.hpp"

namespace tandem::sim {
namespace {

struct Span {
  std::int64_t from, to;
  double memory = 0;   ///< of the device's memory bandwidth, the share that is taken meanwhile
};

/// Sends need few compute units, and what runs in pieces beside its product has its price in that (CommFit::chunked_exposed).
bool costs_company(const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  return collective != nullptr && !collective->chunked;
}

bool computes(const Task& task) { return task.stream == Stream::compute && !is_communication(task.op); }

/// How often a ring of many ranks touches a rank's memory for each element: what arrives is written to a buffer and read there, and
/// written to the output or added to what is read of the input (NVIDIA/nccl: src/device/prims_simple.h, all_gather.h,
/// reduce_scatter.h); an all-reduce does both, and an exchange reads what it sends, too (sendrecv.h).
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

std::vector<Span> sorted(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  return spans;
}

class Company {
 public:
  explicit Company(std::vector<Span> spans) : spans_(sorted(std::move(spans))) {}

  /// What the traffic of spans within [from, to) takes of the memory's time, each rounded: sums do not depend on an order. Calls
  /// ask in order of `from`.
  std::int64_t shared(std::int64_t from, std::int64_t to) {
    pass(from);
    std::int64_t sum = 0;
    for (std::size_t s = next_; s < spans_.size() && spans_[s].from < to; ++s) {
      const std::int64_t together = std::min(to, spans_[s].to) - std::max(from, spans_[s].from);
      if (together > 0) sum += std::llround(spans_[s].memory * static_cast<double>(together));
    }
    return sum;
  }
  /// Whether [from, to) shares any.
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

/// Which patterns have collectives that can be beside any computation: one of their own, or, where the collective outlasts
/// them, one of a later instance. The others take turns with computation, and need no looking at.
class Overlaps {
 public:
  Overlaps(const Play& play, const TaskGraph& graph) : play_(play), graph_(graph), known_(play.patterns.size()) {}

  bool of(const Instance& instance, PatternId id) {
    if (!known_[id]) known_[id] = found(graph_.of(instance).tasks, play_.patterns[id]);
    return *known_[id];
  }

 private:
  bool found(const std::vector<Task>& tasks, const Pattern& pattern) const {
    const Stretch& stretch = play_.patterns.of(pattern.stretch);
    std::vector<Span> spans;
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (costs_company(tasks[t].op) && stretch.steps[t].duration > 0)
        spans.push_back({pattern.ended[t] - stretch.steps[t].duration, pattern.ended[t]});
    Company company(std::move(spans));
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (computes(tasks[t]) && company.meets(pattern.ended[t] - stretch.steps[t].duration, pattern.ended[t])) return true;
    return company.meets(pattern.free[0], INT64_MAX);
  }

  const Play& play_;
  const TaskGraph& graph_;
  std::vector<std::optional<bool>> known_;  ///< by pattern
};

/// One role's computations against its collectives.
class RoleCompany {
 public:
  RoleCompany(const Play& play, const TaskGraph& graph, std::size_t role, Overlaps& overlaps)
      : play_(play), graph_(graph), program_(graph.program(play.roles[role].stage)), record_(play.records[role]),
        reader_(play, role), overlaps_(overlaps) {}

  RoleDelays delays(double slowdown, Bandwidth memory) {
    Company company(communication(memory));
    RoleDelays out;
    out.first.assign(program_.instances.size(), RoleDelays::kNone);
    for (std::uint32_t i = 0; i < program_.instances.size(); ++i) {
      const Passage& p = record_.at(play_.times, i);
      if (p.has_pattern() && !company.meets(p.start, p.start + play_.patterns[p.pattern].free[0])) continue;
      const auto& tasks = tasks_of(i);
      for (std::uint16_t t = 0; t < tasks.size(); ++t) {
        if (!computes(tasks[t])) continue;
        const auto [started, ended] = reader_.computed(i, t);
        const std::int64_t shared = company.shared(started, ended);
        if (shared == 0) continue;
        if (out.first[i] == RoleDelays::kNone) {
          out.first[i] = static_cast<std::uint32_t>(out.ps.size());
          out.ps.resize(out.ps.size() + tasks.size(), 0);
        }
        out.ps[out.first[i] + t] = std::llround(static_cast<double>(shared) * slowdown);
      }
    }
    return out;
  }

 private:
  const std::vector<Task>& tasks_of(std::uint32_t i) const { return graph_.of(program_.instances[i]).tasks; }

  /// When the role was busy with collectives that can have been beside a computation.
  std::vector<Span> communication(Bandwidth memory) {
    std::vector<Span> spans;
    for (std::uint32_t i = 0; i < program_.instances.size(); ++i) {
      if (record_.at(play_.times, i).has_pattern() && !overlaps_.of(program_.instances[i], record_.at(play_.times, i).pattern)) continue;
      const auto& tasks = tasks_of(i);
      for (std::uint16_t t = 0; t < tasks.size(); ++t) {
        if (!costs_company(tasks[t].op)) continue;
        Span span{reader_.started(i, t), reader_.ended(i, t)};
        if (span.to <= span.from) continue;
        span.memory = memory_share(std::get<Collective>(tasks[t].op), span.to - span.from, memory);
        spans.push_back(span);
      }
    }
    return spans;
  }

  const Play& play_;
  const TaskGraph& graph_;
  const Program& program_;
  const Record& record_;
  Reader reader_;
  Overlaps& overlaps_;
};

}  // namespace

double memory_share(const Collective& c, std::int64_t ps, Bandwidth memory) {
  const auto bytes = static_cast<double>(bytes_of(c.dtype, touches(c.kind) * c.elements).count());
  return bytes / memory.bytes_per_second() * 1e12 / static_cast<double>(ps);
}

std::vector<RoleDelays> delays_in_company(const Play& play, const TaskGraph& graph, double slowdown, Bandwidth memory) {
  std::vector<RoleDelays> delays;
  Overlaps overlaps(play, graph);
  for (std::size_t role = 0; role < play.roles.size(); ++role)
    delays.push_back(RoleCompany(play, graph, role, overlaps).delays(slowdown, memory));
  if (std::all_of(delays.begin(), delays.end(), [](const RoleDelays& d) { return d.ps.empty(); })) delays.clear();
  return delays;
}

}  // namespace tandem::sim
