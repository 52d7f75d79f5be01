#include "sim/result/breakdown.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "models/base/threads.hpp"
#include "sim/result/last_arrivals.hpp"

namespace tandem::sim {
namespace {

using Where = Place;

/// What all roles look up.
class Known {
 public:
  Known(const SimulatedStep& simulated, const TaskGraph& graph)
      : first_edge_(graph.programs.size()), waits_(graph.programs.size()), lanes_(lanes_of(simulated.host.synchronous)) {
    ways_.reserve(simulated.patterns.size());
    for (PatternId id = 0; id < simulated.patterns.size(); ++id) {
      const Pattern& p = simulated.patterns[id];
      const std::uint16_t first = simulated.patterns.of(p.timed).first[0];
      ways_.push_back({first, p.closed, p.ended[first], p.free[0], {}});
    }
    for (const Template& t : graph.templates) {
      host_waits_.push_back(t.host_waits);
      last_task_.emplace_back().fill(-1);
      for (std::size_t i = 0; i < t.tasks.size(); ++i) last_task_.back()[lane(t.tasks[i])] = static_cast<std::int32_t>(i);
    }
  }

  /// What of a pattern every instance that went so asks for.
  struct Way {
    std::uint16_t first;                            ///< computation
    bool closed;
    std::int64_t first_ended, ended;                ///< ps from the start: the first computation, the last one
    std::array<std::optional<Breakdown>, 2> rest;   ///< from the end of the first one on; of any instance, of the optimizer's
  };
  Way& way(PatternId id) { return ways_[id]; }

  /// By instance of a program: its first edge, and the total.
  const std::vector<std::uint32_t>& first_edges(const Program& program) {
    std::vector<std::uint32_t>& first = first_edge_[program.stage.index()];
    if (!first.empty()) return first;
    first.assign(program.instances.size() + 1, 0);
    for (const Edge& e : program.edges) ++first[e.to_instance + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    return first;
  }

  /// The edges of a program whose end the host waits for before it issues on; of those from one task the first.
  const std::vector<Edge>& host_waits(const Program& program) {
    std::optional<std::vector<Edge>>& waits = waits_[program.stage.index()];
    if (waits) return *waits;
    waits.emplace();
    std::vector<std::int32_t> noted(program.instances.size(), -1);  // task, by instance
    for (const Edge& e : program.edges)
      if (host_waits(program, e) && std::exchange(noted[e.from_instance], e.from_task) != e.from_task) waits->push_back(e);
    return *waits;
  }
  bool host_waits(const Program& program, const Edge& e) const {
    return host_waits_[program.instances[e.from_instance].tmpl.index()];
  }
  std::size_t lane(const Task& task) const { return lanes_[static_cast<std::size_t>(task.stream)]; }
  /// The last task of a template on a lane; -1: there is none.
  std::int32_t last_task(TemplateId t, std::size_t lane) const { return last_task_[t.index()][lane]; }

 private:
  std::vector<Way> ways_;  ///< by pattern
  std::vector<std::vector<std::uint32_t>> first_edge_;              ///< by stage
  std::vector<std::optional<std::vector<Edge>>> waits_;             ///< by stage
  std::vector<std::array<std::int32_t, kLanes>> last_task_;         ///< by template
  std::vector<bool> host_waits_;                                    ///< by template
  LaneOfStream lanes_;
};

/// What runs on the tensor stream stands in a layer's way: sums and gathers of tensor ranks, exchanges of context and expert ranks.
Share share_in_layer(const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  if (collective != nullptr && collective->group == Group::context) return Share::context_comm;
  if (collective != nullptr && collective->group == Group::expert) return Share::expert_comm;
  return Share::tensor_comm;
}

Share share_of(const Task& task) {
  switch (task.stream) {
    case Stream::tensor: return share_in_layer(task.op);
    case Stream::data: return Share::data_comm;
    case Stream::send:
    case Stream::recv: return Share::pipeline_comm;
    case Stream::host: return Share::host_copy;
    case Stream::compute: break;
  }
  return Share::compute;
}

/// Picoseconds of a simulated step; time outside is not counted.
struct Window {
  std::int64_t from, to;
};

class Attributor;

/// All roles of a step, which ask each other what they waited for.
class Roles {
 public:
  Roles(const SimulatedStep& simulated, const TaskGraph& graph);
  ~Roles();
  Attributor& of(std::size_t role);
  /// What of [from, to), until when the exchange `w` of `role` waited for another role, that one's host launched.
  std::int64_t launching_before(std::size_t role, Where w, std::int64_t from, std::int64_t to, Window window);
  /// What of [from, to), the end of the step, the host of the role that ends last launched.
  std::int64_t launching_at_end(std::int64_t from, std::int64_t to);

 private:
  const SimulatedStep& simulated_;
  const TaskGraph& graph_;
  Known known_;
  LastArrivals arrivals_;
  std::int64_t launched_;                           ///< ps; no host launches from then on
  std::vector<std::unique_ptr<Attributor>> roles_;  ///< those that were asked for
};

/// When the last host that runs ahead has launched all; the step's end where hosts wait for their device, or compute themselves.
std::int64_t launched(const SimulatedStep& simulated) {
  std::uint64_t operations = 0;
  for (const LaneProgram& p : simulated.lane_programs) {
    if (simulated.host.synchronous || p.host_waits) return simulated.step_time.ps();
    operations = std::max(operations, p.starts.back().host);
  }
  return static_cast<std::int64_t>(operations) * simulated.host.launch.ps();
}

class Attributor {
 public:
  Attributor(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role, Known& known, Roles& roles)
      : simulated_(simulated),
        graph_(graph),
        role_(role),
        roles_(roles),
        program_(graph.program(simulated.roles[role].stage)),
        lane_program_(simulated.lane_program(role)),
        record_(simulated.records[role]),
        reader_(simulated, role),
        known_(known),
        first_edges_(known.first_edges(program_)),
        waits_(host_waits()) {}

  Breakdown run(Window window) {
    window_ = window;
    out_ = {};
    std::int64_t done = 0;
    for (std::uint32_t i = 0; i < program_.instances.size(); ++i) {
      const InstanceRecord& p = record_.at(simulated_.times, i);
      done = p.has_pattern() ? patterned(i, p, done) : computations(i, 0, done);
    }
    tail(done);
    return out_;
  }

  /// What of [from, to), at whose end `w` became ready, the host launched, as far as it lies in `window`. Other roles ask, maybe
  /// while this one asks them.
  std::int64_t launching(std::int64_t from, std::int64_t to, Where w, Window window) {
    const Breakdown out = std::exchange(out_, {});
    const Window own = std::exchange(window_, window);
    explain(std::max(from, window.from), to, w);
    window_ = own;
    return std::exchange(out_, out)[Share::launch];
  }
  /// The same up to the role's end.
  std::int64_t launching_to_end(std::int64_t from) {
    const Breakdown out = std::exchange(out_, {});
    const Window own = std::exchange(window_, {from, record_.end.ps()});
    const Where w = last();
    explain(from, busy(from, record_.end.ps(), w), w);
    window_ = own;
    return std::exchange(out_, out)[Share::launch];
  }

 private:
  void add(Share share, std::int64_t from, std::int64_t to) {
    from = std::max(from, window_.from);
    to = std::min(to, window_.to);
    if (to > from) out_.ps[static_cast<std::size_t>(share)] += to - from;
  }

  /// What others took, of which their launches are known.
  void add_wait(std::int64_t from, std::int64_t to, std::int64_t launching) {
    const std::int64_t length = std::min(to, window_.to) - std::max(from, window_.from);
    if (length <= 0) return;
    out_.ps[static_cast<std::size_t>(Share::launch)] += launching;
    out_.ps[static_cast<std::size_t>(Share::bubble)] += length - launching;
  }

  const Task& task(Where w) const { return graph_.of(program_.instances[w.instance]).tasks[w.task]; }
  TaskSpan at(Where w) const { return reader_.at(w.instance, w.task); }

  /// The instance's computations from task `t` on; the end of the last one.
  std::int64_t computations(std::uint32_t i, std::uint16_t t, std::int64_t done) {
    const Template& tmpl = graph_.of(program_.instances[i]);
    for (; t < tmpl.tasks.size(); ++t)
      if (tmpl.tasks[t].stream == Stream::compute) done = computation({i, t}, done);
    return done;
  }

  /// What led to its first computation is the instance's own. The rest is alike in all that went by a pattern in which
  /// nobody outside had a say, for then every cause lies behind that computation.
  std::int64_t patterned(std::uint32_t i, const InstanceRecord& p, std::int64_t done) {
    Known::Way& way = known_.way(p.pattern);
    const bool optimizer = program_.instances[i].phase == Phase::optimizer;
    if (p.start > done) explain(done, p.start, {i, way.first});
    done = p.start + way.first_ended;
    add(optimizer ? Share::optimizer : Share::compute, p.start, done);
    const auto rest = static_cast<std::uint16_t>(way.first + 1);
    const std::int64_t end = p.start + way.ended;
    if (!way.closed || p.start < window_.from || end > window_.to) return computations(i, rest, done);
    std::optional<Breakdown>& known = way.rest[optimizer ? 1 : 0];
    if (!known) {
      const Breakdown before = std::exchange(out_, {});
      computations(i, rest, done);
      known = std::exchange(out_, before);
    }
    for (std::size_t share = 0; share < kShares; ++share) out_.ps[share] += known->ps[share];
    return end;
  }

  std::int64_t computation(Where w, std::int64_t done) {
    const TaskSpan h = at(w);
    if (h.started > done) explain(done, h.started, w);
    const bool optimizer = program_.instances[w.instance].phase == Phase::optimizer;
    add(optimizer ? Share::optimizer : Share::compute, h.started, h.ended);
    return h.ended;
  }

  /// What follows the last computation: the role's own last communication, then the wait for the other roles.
  void tail(std::int64_t done) {
    const std::int64_t end = record_.end.ps();
    const std::int64_t from = std::max({done, end, window_.from});
    if (from < window_.to) add_wait(from, window_.to, roles_.launching_at_end(from, window_.to));
    if (end <= done) return;
    const Where w = last();
    explain(done, busy(done, end, w), w);
  }

  std::int64_t ended(Where w) const { return reader_.ended(w.instance, w.task); }

  /// The task that ended last; of several the one that was issued first. On a lane none ends before the one in front of it.
  Where last() const {
    std::optional<Where> found;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      std::optional<Where> w = before(static_cast<std::uint32_t>(program_.instances.size()), lane);
      if (!w) continue;
      const std::int64_t end = ended(*w);
      for (auto earlier = previous(*w); earlier && ended(*earlier) == end; earlier = previous(*w)) w = earlier;
      const auto position = [](Where x) { return std::pair(x.instance, x.task); };
      if (!found || end > ended(*found) || (end == ended(*found) && position(*w) < position(*found))) found = w;
    }
    return *found;
  }

  /// Names [lo, hi), at whose end `waiter` became ready, going back from cause to cause.
  void explain(std::int64_t lo, std::int64_t hi, Where waiter) {
    while (hi > lo) {
      if (const auto cause = cause_of(waiter, hi)) {
        hi = busy(lo, hi, *cause);
        waiter = *cause;
      } else if (reader_.issued(waiter.instance, waiter.task) == hi) {
        if (simulated_.host.synchronous) {
          hi = launches(lo, hi, waiter);
        } else if (const auto cause = host_waited_for(waiter, hi)) {
          const std::int64_t resumed = at(*cause).ended;
          add(Share::launch, std::max(lo, resumed), hi);
          if (resumed <= lo) return;
          hi = busy(lo, resumed, *cause);
          waiter = *cause;
        } else {
          return add(Share::launch, lo, hi);
        }
      } else {
        return add(Share::bubble, lo, hi);
      }
    }
  }

  /// Names the time back from hi, when `w` ended, to when it was ready; returns that.
  std::int64_t busy(std::int64_t lo, std::int64_t hi, Where w) {
    const TaskSpan h = at(w);
    add(share_of(task(w)), std::max(lo, h.started), hi);
    if (std::max(lo, h.ready) < h.started) waited(std::max(lo, h.ready), h.started, w);
    if (hi > window_.from && hi <= window_.to && task(w).stream == Stream::recv && h.first && *h.first < h.ready &&
        credited(w, h.ready))
      out_.credit_stall_ps += std::min(hi - lo, h.ready - *h.first);
    return h.ready;
  }

  /// Names [from, to), in which an exchange waited for its other parties.
  void waited(std::int64_t from, std::int64_t to, Where w) {
    if (from < window_.to && to > window_.from) add_wait(from, to, roles_.launching_before(role_, w, from, to, window_));
  }

  /// A host that computes itself: its launches back to the end of what it ran before. `waiter` becomes that.
  std::int64_t launches(std::int64_t lo, std::int64_t hi, Where& waiter) {
    std::uint32_t position = lane_program_.starts[waiter.instance].base + waiter.task;
    const auto bound_by_launch = [&] { return reader_.issued(waiter.instance, waiter.task) == hi; };
    while (hi > lo && bound_by_launch()) {
      const std::int64_t launch = task(waiter).host_operations * simulated_.host.launch.ps();
      add(Share::launch, std::max(lo, hi - launch), hi);
      hi -= launch;
      if (position == 0) return lo;
      waiter = place_of(lane_program_, --position);
      if (lane(waiter) == 0) return busy(lo, hi, waiter);
    }
    return hi;
  }

  /// The task that the host waited for longest before it issued `w` at `issued`: what came after its end is launching, what came
  /// before is not.
  std::optional<Where> host_waited_for(Where w, std::int64_t issued) const {
    if (waits_.empty()) return {};
    const auto after = std::lower_bound(waits_.begin(), waits_.end(), w.instance,
                                        [](const Waited& a, std::uint32_t instance) { return a.instance < instance; });
    Wait last = after != waits_.begin() ? (after - 1)->longest : Wait{};
    for (const Edge& e : edges_into(w.instance))
      if (e.to_task <= w.task && known_.host_waits(program_, e)) last = later(last, wait_of(e));
    return last.ended >= 0 && last.ended < issued ? std::optional(last.on) : std::nullopt;
  }

  struct Wait {
    std::int64_t ended = -1;
    Where on{0, 0};
  };
  /// From this instance on.
  struct Waited {
    std::uint32_t instance;
    Wait longest;
  };
  static Wait later(const Wait& a, const Wait& b) { return b.ended > a.ended ? b : a; }
  Wait wait_of(const Edge& e) const { return {reader_.ended(e.from_instance, e.from_task), {e.from_instance, e.from_task}}; }
  std::span<const Edge> edges_into(std::uint32_t instance) const {
    const Edge* const edges = program_.edges.data();
    return {edges + first_edges_[instance], edges + first_edges_[instance + 1]};
  }

  /// What the host waited for longest until it had issued all of an instance, where that is another task than before.
  std::vector<Waited> host_waits() const {
    if (simulated_.host.synchronous || !lane_program_.host_waits) return {};
    const std::vector<Edge>& edges = known_.host_waits(program_);  // ascending instance
    std::vector<Wait> waits;
    waits.reserve(edges.size());
    for (const Edge& e : edges) waits.push_back(wait_of(e));  // all at once: most have to be fetched from far away
    std::vector<Waited> out;
    Wait longest;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (waits[i].ended <= longest.ended) continue;
      longest = waits[i];
      if (!out.empty() && out.back().instance == edges[i].to_instance) out.back().longest = longest;
      else out.push_back({edges[i].to_instance, longest});
    }
    return out;
  }

  std::size_t lane(Where w) const { return known_.lane(task(w)); }

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
    const Edge* const end = program_.edges.data() + first_edges_[w.instance + 1];
    const Edge* first = program_.edges.data() + first_edges_[w.instance];
    while (first != end && first->to_task < w.task) ++first;
    const Edge* last = first;
    while (last != end && last->to_task == w.task) ++last;
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
    const std::size_t own = lane(w);
    for (std::uint16_t t = w.task; t-- > 0;)
      if (lane({w.instance, t}) == own) return Where{w.instance, t};
    return before(w.instance, own);
  }

  /// The last task of a lane before an instance.
  std::optional<Where> before(std::uint32_t instance, std::size_t lane) const {
    if (instance == 0) return {};
    const auto last_of = [&](std::uint32_t i) { return known_.last_task(program_.instances[i].tmpl, lane); };
    if (const std::int32_t t = last_of(instance - 1); t >= 0) return Where{instance - 1, static_cast<std::uint16_t>(t)};
    const std::vector<std::uint32_t>& on = lane_program_.lanes[lane].instances;
    for (auto i = std::lower_bound(on.begin(), on.end(), instance); i != on.begin();)
      if (const std::int32_t t = last_of(*--i); t >= 0) return Where{*i, static_cast<std::uint16_t>(t)};
    return {};
  }

  const SimulatedStep& simulated_;
  const TaskGraph& graph_;
  const std::size_t role_;
  Roles& roles_;
  const Program& program_;
  const LaneProgram& lane_program_;
  const Record& record_;
  Reader reader_;
  Known& known_;
  Window window_{};
  const std::vector<std::uint32_t>& first_edges_;
  const std::vector<Waited> waits_;
  Breakdown out_;
};

Roles::Roles(const SimulatedStep& simulated, const TaskGraph& graph)
    : simulated_(simulated),
      graph_(graph),
      known_(simulated, graph),
      arrivals_(simulated),
      launched_(launched(simulated)),
      roles_(simulated.roles.size()) {}

Roles::~Roles() = default;

Attributor& Roles::of(std::size_t role) {
  if (!roles_[role]) roles_[role] = std::make_unique<Attributor>(simulated_, graph_, role, known_, *this);
  return *roles_[role];
}

std::int64_t Roles::launching_before(std::size_t role, Where w, std::int64_t from, std::int64_t to, Window window) {
  if (from >= launched_) return 0;
  const std::optional<LastArrival> last = arrivals_.of(role, w);
  return last ? of(last->role).launching(from, to, last->at, {std::max(from, window.from), std::min(to, window.to)}) : 0;
}

std::int64_t Roles::launching_at_end(std::int64_t from, std::int64_t to) {
  if (from >= launched_) return 0;
  for (std::size_t role = 0; role < roles_.size(); ++role)
    if (simulated_.records[role].end.ps() == to) return of(role).launching_to_end(from);
  return 0;
}

}  // namespace

Breakdown break_down(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role) {
  return Roles(simulated, graph).of(role).run({0, simulated.step_time.ps()});
}

std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph) {
  return break_down(simulated, graph, std::vector<std::int64_t>(simulated.roles.size(), simulated.step_time.ps()),
                    simulated.step_time.ps());
}

std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph, const std::vector<std::int64_t>& ends,
                                  std::int64_t span) {
  constexpr std::size_t kWorthAThread = 256;
  std::vector<Breakdown> out(simulated.roles.size());
  const std::size_t parts = std::clamp<std::size_t>(out.size() / kWorthAThread, 1, static_cast<std::size_t>(all_cores()));
  // Neighbours ask each other most: what a thread has found out about them, others do not need.
  for_each_index(parts, {.most = static_cast<int>(parts)}, [&](std::size_t part) {
    Roles roles(simulated, graph);
    for (std::size_t role = out.size() * part / parts; role < out.size() * (part + 1) / parts; ++role)
      out[role] = roles.of(role).run({ends[role] - span, ends[role]});
  });
  return out;
}

TimeBreakdown in_seconds(const Breakdown& breakdown) {
  constexpr const char* names[kShares] = {"compute",   "tensor_comm", "context_comm", "expert_comm", "pipeline_comm",
                                          "data_comm", "optimizer",   "bubble",       "launch",      "host_copy"};
  TimeBreakdown out;
  for (std::size_t i = 0; i < kShares; ++i) out[names[i]] = static_cast<double>(breakdown.ps[i]) * 1e-12;
  return out;
}

}  // namespace tandem::sim
