#include "sim/result/role_breakdown.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace tandem::sim {
namespace {

/// The share of an operation on the tensor stream: a collective of tensor, context or expert ranks.
Share share_in_layer(const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  if (collective == nullptr) return Share::tensor_comm;
  switch (collective->group) {
    case Group::context: case Group::context_heads: case Group::context_keys: return Share::context_comm;
    case Group::expert: return Share::expert_comm;
    default: return Share::tensor_comm;
  }
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

template <class O>
constexpr Kernel kKernel = Kernel::other;
template <> constexpr Kernel kKernel<MatMul> = Kernel::products;
template <> constexpr Kernel kKernel<GroupedMatMul> = Kernel::products;
template <> constexpr Kernel kKernel<GroupedWeightGrad> = Kernel::products;
template <> constexpr Kernel kKernel<AttentionScores> = Kernel::attention;
template <> constexpr Kernel kKernel<AttentionSoftmax> = Kernel::attention;
template <> constexpr Kernel kKernel<AttentionContext> = Kernel::attention;
template <> constexpr Kernel kKernel<AttentionContextBackward> = Kernel::attention;
template <> constexpr Kernel kKernel<AttentionSoftmaxBackward> = Kernel::attention;
template <> constexpr Kernel kKernel<AttentionScoresBackward> = Kernel::attention;
template <> constexpr Kernel kKernel<FlashAttention> = Kernel::attention;
template <> constexpr Kernel kKernel<FlashAttentionBackward> = Kernel::attention;

Kernel kernel_of(const Op& op) {
  return std::visit([]<class O>(const O&) { return kKernel<O>; }, op);
}

}  // namespace

RoleBreakdown::RoleBreakdown(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role, BreakdownTables& tables,
                             OtherRoles& others)
    : simulated_(simulated),
      graph_(graph),
      role_(role),
      record_(simulated.records[role]),
      tables_(tables),
      others_(others),
      causes_(simulated, graph, role, tables) {}

Breakdown RoleBreakdown::run(Window window) {
  window_ = window;
  out_ = {};
  std::int64_t done = 0;
  for (std::uint32_t i = 0; i < causes_.program().instances.size(); ++i) {
    const InstanceRecord& p = record_.at(simulated_.times, i);
    done = p.has_pattern() ? patterned(i, p, done) : computations(i, 0, done);
  }
  tail(done);
  return out_;
}

std::int64_t RoleBreakdown::launching(std::int64_t from, std::int64_t to, Place w, Window window) {
  const Breakdown out = std::exchange(out_, {});
  const Window own = std::exchange(window_, window);
  explain(std::max(from, window.from), to, w);
  window_ = own;
  return std::exchange(out_, out)[Share::launch];
}

std::int64_t RoleBreakdown::launching_to_end(std::int64_t from) {
  const Breakdown out = std::exchange(out_, {});
  const Window own = std::exchange(window_, {from, record_.end.ps()});
  const Place w = causes_.last();
  explain(from, busy(from, record_.end.ps(), w), w);
  window_ = own;
  return std::exchange(out_, out)[Share::launch];
}

/// A computation, from its start to its end.
void RoleBreakdown::compute(Place w, std::int64_t from, std::int64_t to) {
  if (causes_.program().instances[w.instance].phase == Phase::optimizer) return add(Share::optimizer, from, to);
  add(Share::compute, from, to);
  const std::int64_t length = std::min(to, window_.to) - std::max(from, window_.from);
  if (length > 0) out_.kernel_ps[static_cast<std::size_t>(kernel_of(causes_.task(w).op))] += length;
}

void RoleBreakdown::add(Share share, std::int64_t from, std::int64_t to) {
  from = std::max(from, window_.from);
  to = std::min(to, window_.to);
  if (to > from) out_.ps[static_cast<std::size_t>(share)] += to - from;
}

/// Adds a wait for other roles: `launching` of it as launch, the rest as bubble.
void RoleBreakdown::add_wait(std::int64_t from, std::int64_t to, std::int64_t launching) {
  const std::int64_t length = std::min(to, window_.to) - std::max(from, window_.from);
  if (length <= 0) return;
  out_.ps[static_cast<std::size_t>(Share::launch)] += launching;
  out_.ps[static_cast<std::size_t>(Share::bubble)] += length - launching;
}

/// Adds the instance's computations from task `t` on. Returns the end of the last one.
std::int64_t RoleBreakdown::computations(std::uint32_t i, std::uint16_t t, std::int64_t done) {
  const Template& tmpl = graph_.of(causes_.program().instances[i]);
  for (; t < tmpl.tasks.size(); ++t)
    if (tmpl.tasks[t].stream == Stream::compute) done = computation({i, t}, done);
  return done;
}

/// Adds an instance with a pattern. The wait before its first computation is the instance's own. The rest is alike in all instances
/// of a closed pattern, because every cause then lies behind that computation.
std::int64_t RoleBreakdown::patterned(std::uint32_t i, const InstanceRecord& p, std::int64_t done) {
  BreakdownTables::Way& way = tables_.way(p.pattern);
  const bool optimizer = causes_.program().instances[i].phase == Phase::optimizer;
  if (p.start > done) explain(done, p.start, {i, way.first});
  done = p.start + way.first_ended;
  compute({i, way.first}, p.start, done);
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
  for (std::size_t kernel = 0; kernel < kKernels; ++kernel) out_.kernel_ps[kernel] += known->kernel_ps[kernel];
  return end;
}

std::int64_t RoleBreakdown::computation(Place w, std::int64_t done) {
  const TaskSpan h = causes_.at(w);
  if (h.started > done) explain(done, h.started, w);
  compute(w, h.started, h.ended);
  return h.ended;
}

/// Adds the time after the last computation: the role's own last communication, then the wait for the other roles.
void RoleBreakdown::tail(std::int64_t done) {
  const std::int64_t end = record_.end.ps();
  const std::int64_t from = std::max({done, end, window_.from});
  if (from < window_.to) add_wait(from, window_.to, others_.launching_at_end(from, window_.to));
  if (end <= done) return;
  const Place w = causes_.last();
  explain(done, busy(done, end, w), w);
}

/// Names the time in [lo, hi), at whose end `waiter` became ready, going back from cause to cause.
void RoleBreakdown::explain(std::int64_t lo, std::int64_t hi, Place waiter) {
  while (hi > lo) {
    if (const auto cause = causes_.of(waiter, hi)) {
      hi = busy(lo, hi, *cause);
      waiter = *cause;
    } else if (causes_.issued(waiter) == hi) {
      if (simulated_.host.synchronous) {
        hi = launches(lo, hi, waiter);
      } else if (const auto cause = causes_.host_waited_for(waiter, hi)) {
        const std::int64_t resumed = causes_.at(*cause).ended;
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

/// Names the time from when `w` was ready to `hi`, when it ended. Returns the former.
std::int64_t RoleBreakdown::busy(std::int64_t lo, std::int64_t hi, Place w) {
  const TaskSpan h = causes_.at(w);
  const Task& task = causes_.task(w);
  add(share_of(task), std::max(lo, h.started), hi);
  if (std::max(lo, h.ready) < h.started) waited(std::max(lo, h.ready), h.started, w);
  if (hi > window_.from && hi <= window_.to && task.stream == Stream::recv && h.first && *h.first < h.ready &&
      causes_.credited(w, h.ready))
    out_.credit_stall_ps += std::min(hi - lo, h.ready - *h.first);
  return h.ready;
}

/// Names [from, to), in which an exchange waited for its other parties.
void RoleBreakdown::waited(std::int64_t from, std::int64_t to, Place w) {
  if (from < window_.to && to > window_.from) add_wait(from, to, others_.launching_before(role_, w, from, to, window_));
}

/// For a host that computes itself: names its launches back to the end of the task that it ran before, which `waiter` becomes.
std::int64_t RoleBreakdown::launches(std::int64_t lo, std::int64_t hi, Place& waiter) {
  const LaneProgram& lane_program = causes_.lane_program();
  std::uint32_t position = lane_program.starts[waiter.instance].base + waiter.task;
  while (hi > lo && causes_.issued(waiter) == hi) {
    const std::int64_t launch = causes_.task(waiter).host_operations * simulated_.host.launch.ps();
    add(Share::launch, std::max(lo, hi - launch), hi);
    hi -= launch;
    if (position == 0) return lo;
    waiter = place_of(lane_program, --position);
    if (causes_.lane(waiter) == 0) return busy(lo, hi, waiter);
  }
  return hi;
}

}  // namespace tandem::sim
