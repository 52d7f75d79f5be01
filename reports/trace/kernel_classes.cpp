#include "reports/trace/trace_rules.hpp"

namespace tandem {

namespace {

/// By rule: whether one of its patterns says the name.
std::vector<bool> matches(const std::string& name, const std::vector<TraceRule>& rules,
                          std::vector<std::string> TraceRule::*patterns) {
  std::vector<bool> out;
  for (const TraceRule& r : rules) out.push_back(any_like(name, r.*patterns));
  return out;
}

}  // namespace

KernelClasses::KernelClasses(const TraceRules& rules, const DeviceTrace& trace, const LaunchStacks& stacks)
    : rules_(rules), trace_(trace), stacks_(stacks) {
  for (const std::string& name : trace.names) {
    named_.push_back(matches(name, rules.kernels(), &TraceRule::names));
    under_.push_back(matches(name, rules.kernels(), &TraceRule::under));
    phases_.push_back(matches(name, rules.phases(), &TraceRule::under));
  }
}

bool KernelClasses::launched_under(std::int32_t stack, std::size_t rule, const Matches& under) const {
  for (; stack != LaunchStacks::kNone; stack = stacks_.outer(stack))
    if (under[stacks_.name(stack)][rule]) return true;
  return false;
}

const std::string& KernelClasses::of(std::size_t event) const {
  static const std::string unknown = kUnknownClass;
  const std::uint32_t name = trace_.events[event].name;
  const std::vector<TraceRule>& rules = rules_.kernels();
  for (std::size_t r = 0; r < rules.size(); ++r) {
    if (!rules[r].names.empty() && !named_[name][r]) continue;
    if (rules[r].under.empty() || launched_under(stacks_.of(event), r, under_)) return rules[r].result;
  }
  return unknown;
}

const std::string& KernelClasses::phase(std::size_t event) const {
  static const std::string unknown = kUnknownPhase, forward = "forward", optimizer = "optimizer";
  if (of(event) == optimizer) return optimizer;
  const std::int32_t stack = stacks_.of(event);
  for (std::size_t r = 0; r < rules_.phases().size(); ++r)
    if (launched_under(stack, r, phases_)) return rules_.phases()[r].result;
  return stack == LaunchStacks::kNone || stacks_.replayed(event) ? unknown : forward;
}

}  // namespace tandem
