#include "experiments/tandem/planning/overlaps.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "models/base/text.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/stack_switches.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::planning {
namespace {

/// The plan with all that its stack's switches turn on.
Plan switched(const Assessment& a, const std::string& stack, const StackSwitches& switches) {
  PlanDraft draft = read_draft(a.candidate.text, a.candidate.file, PlanContext{generation_of, program::chosen_stack(stack)});
  draft.plan.parallel.data = a.plan.parallel.data, draft.plan.cluster.devices = a.plan.cluster.devices;  // may be left out
  switches.turn_on(draft.plan, draft.given);
  return completed(draft);
}

}  // namespace

std::string overlaps_note(const Assessment& a, const std::string& stack) {
  const StackSwitches switches(a.plan);
  if (switches.fields().empty()) return "";
  const Plan on = switched(a, stack, switches);
  const Problems gaps = lowering_gaps(on);
  std::vector<std::string> off;
  for (const std::string& path : switches.fields()) {
    const PlanField& field = *find_field(path);
    const bool refused = std::any_of(gaps.begin(), gaps.end(), [&](const Problem& p) { return p.field == path; });
    if (!refused && field.write(on) != field.write(a.plan)) off.push_back(path.substr(path.rfind('.') + 1));
  }
  if (off.empty()) return "";
  return "the layout is as given, without what shortens steps and " + a.plan.stack.name + " has off by default (" + list_text(off) +
         "): --search turns them on and finds the fastest layout";
}

}  // namespace tandem::planning
