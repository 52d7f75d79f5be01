#include "reports/trace/trace_rules.hpp"

namespace tandem {

KernelClasses::KernelClasses(const TraceRules& rules, const DeviceTrace& trace, const LaunchStacks& stacks)
    : rules_(rules), trace_(trace), stacks_(stacks) {
  for (const std::string& name : trace.names) {
    std::vector<bool> named, under;
    for (const TraceRule& r : rules.kernels()) {
      named.push_back(any_like(name, r.names));
      under.push_back(any_like(name, r.under));
    }
    named_.push_back(std::move(named));
    under_.push_back(std::move(under));
  }
}

bool KernelClasses::launched_under(std::int32_t stack, std::size_t rule) const {
  for (; stack != LaunchStacks::kNone; stack = stacks_.outer(stack))
    if (under_[stacks_.name(stack)][rule]) return true;
  return false;
}

const std::string& KernelClasses::of(std::size_t event) const {
  static const std::string unknown = kUnknownClass;
  const std::uint32_t name = trace_.events[event].name;
  const std::vector<TraceRule>& rules = rules_.kernels();
  for (std::size_t r = 0; r < rules.size(); ++r) {
    if (!rules[r].names.empty() && !named_[name][r]) continue;
    if (rules[r].under.empty() || launched_under(stacks_.of(event), r)) return rules[r].result;
  }
  return unknown;
}

}  // namespace tandem
