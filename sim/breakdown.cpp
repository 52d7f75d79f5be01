#include "sim/breakdown.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace tandem::sim {
namespace {

using Where = Place;

Share share_of(Stream stream) {
  switch (stream) {
    case Stream::tensor: return Share::tensor_comm;
    case Stream::data: return Share::data_comm;
    case Stream::send:
    case Stream::recv: return Share::pipeline_comm;
    case Stream::host: return Share::host_copy;
    case Stream::compute: break;
  }
  return Share::compute;
}

class Attributor {
 public:
  Attributor(const Play& play, const TaskGraph& graph, std::size_t role)
      : play_(play),
        graph_(graph),
        program_(graph.program(play.roles[role].stage)),
        itinerary_(play.itinerary(role)),
        record_(play.records[role]),
        reader_(play, role) {}

  Breakdown run() {
    std::int64_t done = 0;
    for (std::uint32_t i = 0; i < program_.instances.size(); ++i) {
      const Template& tmpl = graph_.of(program_.instances[i]);
      for (std::uint16_t t = 0; t < tmpl.tasks.size(); ++t)
        if (tmpl.tasks[t].stream == Stream::compute) done = computation({i, t}, done);
    }
    tail(done);
    return out_;
  }

 private:
  void add(Share share, std::int64_t from, std::int64_t to) {
    if (to > from) out_.ps[static_cast<std::size_t>(share)] += to - from;
  }

  const Task& task(Where w) const { return graph_.of(program_.instances[w.instance]).tasks[w.task]; }
  Happening at(Where w) const { return reader_.at(w.instance, w.task); }

  std::int64_t computation(Where w, std::int64_t done) {
    const Happening h = at(w);
    if (h.started > done) explain(done, h.started, w);
    const bool optimizer = program_.instances[w.instance].phase == Phase::optimizer;
    add(optimizer ? Share::optimizer : Share::compute, h.started, h.ended);
    return h.ended;
  }

  /// What follows the last computation: the role's own last communication, then the wait for the other roles.
  void tail(std::int64_t done) {
    const std::int64_t end = record_.end.ps();
    add(Share::bubble, std::max(done, end), play_.step_time.ps());
    if (end <= done) return;
    const auto last = std::max_element(record_.ended.begin(), record_.ended.end());
    const Where w = place_of(itinerary_, static_cast<std::uint32_t>(last - record_.ended.begin()));
    explain(done, busy(done, end, w), w);
  }

  /// Names [lo, hi), at whose end `waiter` became ready, going back from cause to cause.
  void explain(std::int64_t lo, std::int64_t hi, Where waiter) {
    while (hi > lo) {
      if (const auto cause = cause_of(waiter, hi)) {
        hi = busy(lo, hi, *cause);
        waiter = *cause;
      } else if (at(waiter).issued == hi) {
        if (!play_.host.synchronous) return add(Share::launch, lo, hi);
        hi = launches(lo, hi, waiter);
      } else {
        return add(Share::bubble, lo, hi);
      }
    }
  }

  /// Names the time back from hi, when `w` ended, to when it was ready; returns that.
  std::int64_t busy(std::int64_t lo, std::int64_t hi, Where w) {
    const Happening h = at(w);
    add(share_of(task(w).stream), std::max(lo, h.started), hi);
    add(Share::bubble, std::max(lo, h.ready), std::min(hi, h.started));
    if (task(w).stream == Stream::recv && h.first && *h.first < h.ready && credited(w, h.ready))
      out_.credit_stall_ps += std::min(hi - lo, h.ready - *h.first);
    return h.ready;
  }

  /// A host that computes itself: its launches back to the end of what it ran before. `waiter` becomes that.
  std::int64_t launches(std::int64_t lo, std::int64_t hi, Where& waiter) {
    std::uint32_t position = itinerary_.base[waiter.instance] + waiter.task;
    const std::int64_t launch = play_.host.launch.ps();
    const auto bound_by_launch = [&] { return record_.issued[position] == hi; };
    while (hi > lo && bound_by_launch()) {
      add(Share::launch, std::max(lo, hi - launch), hi);
      hi -= launch;
      if (position == 0) return lo;
      waiter = place_of(itinerary_, --position);
      if (lane(waiter) == 0) return busy(lo, hi, waiter);
    }
    return hi;
  }

  std::size_t lane(Where w) const { return lanes_of(play_.host.synchronous)[static_cast<std::size_t>(task(w).stream)]; }

  /// The dependency, or the task before on the lane, whose end at `hi` let `w` go.
  std::optional<Where> cause_of(Where w, std::int64_t hi) const {
    for (const std::uint16_t d : task(w).deps)
      if (reader_.ended(w.instance, d) == hi) return Where{w.instance, d};
    for (const Edge& e : edges_to(w))
      if (reader_.ended(e.from_instance, e.from_task) == hi) return Where{e.from_instance, e.from_task};
    if (const auto before = previous(w); before && reader_.ended(before->instance, before->task) == hi) return before;
    return {};
  }

  std::span<const Edge> edges_to(Where w) const {
    const auto less = [](const Edge& e, Where to) {
      return e.to_instance != to.instance ? e.to_instance < to.instance : e.to_task < to.task;
    };
    const auto first = std::lower_bound(program_.edges.begin(), program_.edges.end(), w, less);
    auto last = first;
    while (last != program_.edges.end() && last->to_instance == w.instance && last->to_task == w.task) ++last;
    return {first, last};
  }

  bool credited(Where w, std::int64_t at) const {
    const auto edges = edges_to(w);
    return std::any_of(edges.begin(), edges.end(), [&](const Edge& e) {
      return e.kind == EdgeKind::credit && reader_.ended(e.from_instance, e.from_task) == at;
    });
  }

  /// The task before `w` on its lane.
  std::optional<Where> previous(Where w) const {
    for (std::uint16_t t = w.task; t-- > 0;)
      if (lane({w.instance, t}) == lane(w)) return Where{w.instance, t};
    const auto& instances = itinerary_.lanes[lane(w)].instances;
    for (auto it = std::lower_bound(instances.begin(), instances.end(), w.instance); it != instances.begin();) {
      const std::uint32_t i = *--it;
      for (auto t = static_cast<std::uint16_t>(graph_.of(program_.instances[i]).tasks.size()); t-- > 0;)
        if (lane({i, t}) == lane(w)) return Where{i, t};
    }
    return {};
  }

  const Play& play_;
  const TaskGraph& graph_;
  const Program& program_;
  const Itinerary& itinerary_;
  const Record& record_;
  Reader reader_;
  Breakdown out_;
};

}  // namespace

Breakdown break_down(const Play& play, const TaskGraph& graph, std::size_t role) {
  return Attributor(play, graph, role).run();
}

TimeBreakdown in_seconds(const Breakdown& breakdown) {
  constexpr const char* names[kShares] = {"compute",   "tensor_comm", "pipeline_comm", "data_comm",
                                          "optimizer", "bubble",      "launch",        "host_copy"};
  TimeBreakdown out;
  for (std::size_t i = 0; i < kShares; ++i) out[names[i]] = static_cast<double>(breakdown.ps[i]) * 1e-12;
  return out;
}

}  // namespace tandem::sim
