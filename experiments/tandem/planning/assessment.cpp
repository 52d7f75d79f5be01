#include "experiments/tandem/planning/assessment.hpp"

#include <algorithm>

#include "experiments/tandem/base/error_report.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "models/base/quantity.hpp"
#include "models/graph/segments.hpp"
#include "models/stack/stack_checkpoint.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/result/simulate.hpp"
#include "topology/overrides.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::planning {
namespace {

/// Slightly less than 1, since an override with an even share would mean fewer NICs at full speed.
constexpr double kNotFewer = 1 - 1e-6;

void predict(Assessment& a, const std::string& stack) {
  a.plan = parse_plan(a.candidate.text, a.candidate.file, program::chosen_stack(stack));
  require_lowerable(a.plan);
  const TaskGraph graph = lower(a.plan);
  find_place(a);
  sim::SimulateOptions options;
  options.seeds_at_once = 1;  // the plans use the threads
  a.prediction = sim::simulate(a.plan, graph, *a.topology, options);
  if (const std::int64_t first = a.plan.training.batch_rampup.start; first > 0) {
    const Plan small = with_batch(a.plan, first);
    const Prediction begun = sim::simulate(small, lower(small), *a.topology, options);
    a.first_step_share = begun.step_time.seconds() / a.prediction.step_time.seconds();
  }
}

}  // namespace

void find_place(Assessment& a) {
  a.topology = program::topology_of(a.plan, "");
  const NodeFacts node = load_cluster(a.plan.cluster.preset).node;
  a.built_per_node = std::max(a.topology->devices_per_node(), node.devices);
  a.devices_per_chip = node.cores_per_chip;
}

std::int64_t Assessment::nodes() const { return (plan.cluster.devices - 1) / topology->devices_per_node() + 1; }

double Assessment::checkpoint_bytes() const { return tandem::checkpoint_bytes(plan); }

std::vector<std::string> Assessment::notes() const {
  std::vector<std::string> out;
  for (const std::string& note : prediction.notes)
    if (!sim::is_about_method(note) && !note.starts_with(sim::kCaveat)) out.push_back(note);
  return out;
}

std::int64_t needed_on_device(const Prediction& prediction, std::int64_t ranks_per_device) {
  return prediction.roles[neediest_role(prediction)].needed_bytes.count() * ranks_per_device;
}

std::int64_t Assessment::needed_bytes() const { return needed_on_device(prediction, plan.cluster.ranks_per_device); }

Assessment assess(const CandidatePlan& candidate, const std::string& stack) {
  Assessment out;
  out.candidate = candidate;
  out.refusal = candidate.refusal;
  if (!out.refusal.empty()) return out;
  try {
    predict(out, stack);
  } catch (const InfeasibleError& e) {
    out.refusal = program::reasons(e);
  }
  return out;
}

std::string measured_note(const Assessment& a, const Assessment& b) {
  const bool of_a = a.prediction.measured_products.has_value(), of_b = b.prediction.measured_products.has_value();
  if (of_a == of_b) return "";
  const std::string measured = (of_a ? a : b).topology->device().name, computed = (of_a ? b : a).topology->device().name;
  if (measured == computed) return "matrix products of one plan are measured, those of the other are computed from the device's rates";
  return "matrix products of " + measured + " are measured, those of " + computed + " are computed from its rates";
}

CandidatePlan with_network(const Assessment& a, double factor) {
  if (!a.refusal.empty()) throw ConfigError(Problem{a.candidate.file, "", "", a.refusal, ""});
  ClusterFacts facts = load_cluster(a.plan.cluster.preset);
  apply_overrides(a.plan.cluster, facts);
  if (facts.node.nics == 0)
    throw ConfigError(Problem{a.candidate.file, "cluster.preset", '"' + a.plan.cluster.preset + '"', "has no network between nodes", ""});
  const Bandwidth node = facts.node.nic * (static_cast<double>(facts.node.nics) * factor * kNotFewer);
  return changed(a.candidate, {{"cluster.override.scale_out_per_node", text_of(node)}});
}

}  // namespace tandem::planning
