#include "reports/trace/measured_rank.hpp"

#include <algorithm>
#include <utility>

namespace tandem {

namespace {

/// A trace with what each event is: its class and, for communication, its collective.
class Classified {
 public:
  Classified(const DeviceTrace& trace, const GroupNames& groups, const TraceRules& rules)
      : trace_(trace), groups_(groups), rules_(rules), stacks_(trace), classes_(rules, trace, stacks_) {}

  bool communicates(std::size_t event) const { return classes_.of(event) == kCommunicationClass; }

  RankStep work_of(const TraceStep& step) const {
    RankStep out;
    for (const std::uint32_t i : step.events) {
      const double seconds = trace_.events[i].time.seconds();
      out.work.add(seconds);
      const std::string& cls = classes_.of(i);
      const std::string& name = trace_.names[trace_.events[i].name];
      if (!communicates(i)) {
        const std::string& phase = classes_.phase(i);
        out.classes[cls].add(seconds);
        out.phases[phase].add(seconds);
        out.kernels[{cls, phase, name}].add(seconds);
        continue;
      }
      const CollectiveKey key = collective_of(i);
      const std::string of_group = key.group.empty() ? groups_.class_of(key.kind, key.group_size) : communication_class(key.group);
      out.collectives[key].add(seconds);
      out.classes[of_group].add(seconds);
      out.kernels[{of_group, "", name}].add(seconds);
    }
    return out;
  }

 private:
  /// The rule of a collective's name: by the kernel's arguments, else the annotations around its launch, else the kernel.
  const TraceRule* rule_of(std::size_t event) const {
    const DeviceEvent& e = trace_.events[event];
    if (e.collective >= 0)
      if (const TraceRule* rule = rules_.collective(trace_.collectives[static_cast<std::size_t>(e.collective)].name)) return rule;
    for (std::int32_t s = stacks_.of(event); s != LaunchStacks::kNone; s = stacks_.outer(s)) {
      const std::string& name = trace_.names[stacks_.name(s)];
      if (!name.starts_with("nccl:") && !name.starts_with("c10d::")) continue;
      if (const TraceRule* rule = rules_.collective(name)) return rule;
    }
    return rules_.collective(trace_.names[e.name]);
  }

  CollectiveKey collective_of(std::size_t event) const {
    const DeviceEvent& e = trace_.events[event];
    const TraceRule* rule = rule_of(event);
    CollectiveKey key{rule ? rule->result : "collective", rule ? rule->group : "", 0, 0};
    if (e.collective >= 0) {
      const CollectiveFacts& facts = trace_.collectives[static_cast<std::size_t>(e.collective)];
      if (std::string group = groups_.of(facts, key.kind, trace_, rules_); !group.empty()) key.group = std::move(group);
      key.group_size = facts.group_size;
      key.bytes = std::max(facts.in, facts.out) * rules_.bytes_of(facts.dtype);
    }
    if (e.collective < 0 && key.group.empty()) key.group = groups_.of_kind(key.kind);
    if (key.group_size == 0) key.group_size = groups_.size(key.group);
    return key;
  }

  const DeviceTrace& trace_;
  const GroupNames& groups_;
  const TraceRules& rules_;
  LaunchStacks stacks_;
  KernelClasses classes_;
};

/// A step's figures divided by the number of steps that it stands for.
RankStep divided(const RankStep& step, std::int64_t divisor) {
  if (divisor == 1) return step;
  std::vector<RankStep> parts(static_cast<std::size_t>(divisor));
  parts.front() = step;
  return mean_step(parts);
}

}  // namespace

MeasuredRank measured_rank(const DeviceTrace& trace, const TraceSteps& steps, const GroupNames& groups, const TraceRules& rules) {
  const Classified classified(trace, groups, rules);
  std::vector<Interval> computation, communication;
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    (classified.communicates(i) ? communication : computation).emplace_back(trace.events[i].start, trace.events[i].end());
  MeasuredRank out;
  for (const TraceStep& step : steps.steps) {
    RankStep figures = classified.work_of(step);
    set_times(figures, busy_time(computation, communication, {step.begin, step.end}));
    out.steps.push_back(divided(figures, steps.divisor));
  }
  out.typical = median_step(out.steps);
  return out;
}

}  // namespace tandem
