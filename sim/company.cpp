#include "sim/company.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tandem::sim {
namespace {

struct Span {
  std::int64_t from, to;
};

/// Sends need few compute units, and what runs in pieces beside its product has its price in that (CommFit::chunked_exposed).
bool costs_company(const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  return collective != nullptr && !collective->chunked;
}

bool computes(const Task& task) { return task.stream == Stream::compute && !is_communication(task.op); }

/// Spans that overlap or touch become one.
std::vector<Span> merged(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  std::vector<Span> out;
  for (const Span& s : spans)
    if (out.empty() || s.from > out.back().to) out.push_back(s);
    else out.back().to = std::max(out.back().to, s.to);
  return out;
}

class Company {
 public:
  explicit Company(std::vector<Span> spans) : spans_(std::move(spans)) {}

  /// Time of [from, to) that lies in spans. Calls ask in order of `from`.
  std::int64_t shared(std::int64_t from, std::int64_t to) {
    pass(from);
    std::int64_t sum = 0;
    for (std::size_t s = next_; s < spans_.size() && spans_[s].from < to; ++s)
      sum += std::min(to, spans_[s].to) - std::max(from, spans_[s].from);
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
    Company company(merged(std::move(spans)));
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

  RoleDelays delays(double slowdown) {
    Company company(communication());
    RoleDelays out;
    out.first.assign(program_.instances.size(), RoleDelays::kNone);
    for (std::uint32_t i = 0; i < program_.instances.size(); ++i) {
      const Passage& p = record_.at(play_.times, i);
      if (p.has_pattern() && !company.meets(p.start, p.start + play_.patterns[p.pattern].free[0])) continue;
      const auto& tasks = tasks_of(i);
      for (std::uint16_t t = 0; t < tasks.size(); ++t) {
        if (!computes(tasks[t])) continue;
        const std::int64_t shared = company.shared(reader_.started(i, t), reader_.ended(i, t));
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
  std::vector<Span> communication() {
    std::vector<Span> spans;
    for (std::uint32_t i = 0; i < program_.instances.size(); ++i) {
      if (record_.at(play_.times, i).has_pattern() && !overlaps_.of(program_.instances[i], record_.at(play_.times, i).pattern)) continue;
      const auto& tasks = tasks_of(i);
      for (std::uint16_t t = 0; t < tasks.size(); ++t) {
        if (!costs_company(tasks[t].op)) continue;
        const Span span{reader_.started(i, t), reader_.ended(i, t)};
        if (span.to > span.from) spans.push_back(span);
      }
    }
    return merged(std::move(spans));
  }

  const Play& play_;
  const TaskGraph& graph_;
  const Program& program_;
  const Record& record_;
  Reader reader_;
  Overlaps& overlaps_;
};

}  // namespace

std::vector<RoleDelays> delays_in_company(const Play& play, const TaskGraph& graph, double slowdown) {
  std::vector<RoleDelays> delays;
  Overlaps overlaps(play, graph);
  for (std::size_t role = 0; role < play.roles.size(); ++role)
    delays.push_back(RoleCompany(play, graph, role, overlaps).delays(slowdown));
  if (std::all_of(delays.begin(), delays.end(), [](const RoleDelays& d) { return d.ps.empty(); })) delays.clear();
  return delays;
}

}  // namespace tandem::sim
